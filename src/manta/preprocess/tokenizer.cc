#include <arrow/api.h>

#include <map>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/tokens_internal.h"

namespace manta {
namespace {

std::map<std::string, TokenizeFunction>& tokenizers() {
  static std::map<std::string, TokenizeFunction> by_name;
  return by_name;
}

}  // namespace

bool register_tokenizer(const std::string& name, TokenizeFunction function) {
  MANTA_CHECK(!name.empty() && function, "a tokenizer needs a name and a function");
  bool is_new = tokenizers().emplace(name, function).second;
  MANTA_CHECK(is_new, str("two tokenizers are called '", name, "'"));
  return true;
}

TokenizeFunction internal::find_tokenizer(const std::string& name) {
  if (name.empty()) return nullptr;
  auto found = tokenizers().find(name);
  if (found != tokenizers().end()) return found->second;
  throw Error(ErrorKind::kNotFound, str("this program has no tokenizer ", short_text(name),
                                        "; write at namespace scope: static const bool known = "
                                        "manta::register_tokenizer(",
                                        short_text(name), ", function);"));
}

namespace preprocess {

void require_text(const arrow::DataType& type, const std::string& column, const std::string& who) {
  bool is_text = false;
  try {
    auto kind = category_type(type, column, who).kind;
    is_text = kind == CategoryKind::kText || kind == CategoryKind::kNone;
  } catch (const Error&) {
  }
  if (is_text) return;
  throw Error(ErrorKind::kInvalidArgument, str(who, ": column '", column, "' is of type ",
                                               type.ToString(), ", which is no text"));
}

void require_texts(const internal::Columns& columns, const arrow::Schema& schema) {
  columns.require(schema);
  for (const auto& name : columns.inputs()) {
    require_text(*schema.GetFieldByName(name)->type(), name, columns.who());
  }
}

std::shared_ptr<arrow::Array> plain_text(const std::shared_ptr<arrow::Array>& column) {
  return data::plain_column(column);
}

void throw_null_text(int64_t row, const std::string& column, const std::string& who) {
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", column, "' holds a null in row ", row,
                  " of the batch, which is no text; fill it with a SimpleImputer before, or "
                  "drop_na"));
}

std::vector<std::string> tokens_of(TokenizeFunction function, std::string_view text,
                                   const std::string& column, const std::string& who) {
  try {
    return function(text);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kUserCode,
                str(who, ": the tokenizer threw ", demangle(typeid(error).name()),
                    " on a text of column '", column, "': ", error.what()));
  }
}

}  // namespace preprocess

Tokenizer::Tokenizer(std::vector<std::string> columns, const TokenizerOptions& options)
    : columns_(
          internal::Columns::in_pairs("Tokenizer", std::move(columns), options.output_columns)),
      tokenizer_(options.tokenizer),
      function_(internal::find_tokenizer(tokenizer_)) {}

data::BatchPtr Tokenizer::transform_batch(const data::BatchPtr& batch) const {
  constexpr const char* kDoing = "making lists of tokens";
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto values = std::make_shared<arrow::StringBuilder>();
    arrow::ListBuilder lists(arrow::default_memory_pool(), values);
    int64_t begun = 0;  // rows
    preprocess::for_each_token(
        arrays[i], function_, columns_.inputs()[i], name(),
        [&](int64_t row, std::string_view token) {
          for (; begun <= row; ++begun) check(lists.Append(), kDoing);
          check(values->Append(token), kDoing);
        },
        [&](int64_t row) {
          for (; begun < row; ++begun) check(lists.Append(), kDoing);
          check(lists.AppendNull(), kDoing);
          ++begun;
        });
    for (; begun < batch->num_rows(); ++begun) check(lists.Append(), kDoing);  // without tokens
    arrays[i] = check(lists.Finish(), kDoing);
  }
  return columns_.with(batch, std::move(arrays));
}

Json Tokenizer::state() const {
  Json state;
  columns_.write(state);
  state["tokenizer"] = tokenizer_;
  return state;
}

Tokenizer Tokenizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("Tokenizer", fields);
  return Tokenizer(columns.inputs(), {.tokenizer = fields.text("tokenizer", data::kLongestName),
                                      .output_columns = columns.outputs()});
}

}  // namespace manta
