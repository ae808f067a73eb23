#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/preprocess/category_counts_internal.h"
#include "manta/preprocess/distinct_internal.h"
#include "manta/preprocess/hash_internal.h"
#include "manta/preprocess/numbers_internal.h"
#include "manta/preprocess/tokens_internal.h"
#include "manta/preprocess/vectors_internal.h"

namespace manta {
namespace {

constexpr int64_t kMostFeatures = 1 << 20;

struct TokenCounts {
  preprocess::TextTable tokens;
  std::vector<int64_t> counts;

  void add(std::string_view token, int64_t count) {
    auto number = static_cast<size_t>(tokens.insert(token));
    if (number == counts.size()) counts.push_back(0);
    counts[number] += count;
  }
};

class TokenTally final : public Tally {
 public:
  TokenTally(const internal::Columns& columns, TokenizeFunction function)
      : columns_(columns), function_(function), parts_(columns.size()) {}

  void add(const data::BatchPtr& batch) override {
    auto arrays = columns_.of(*batch);
    for (size_t i = 0; i < arrays.size(); ++i) {
      const std::string& column = columns_.inputs()[i];
      preprocess::for_each_token(
          arrays[i], function_, column, columns_.who(),
          [&](int64_t, std::string_view token) { parts_[i].add(token, 1); },
          [&](int64_t row) { preprocess::throw_null_text(row, column, columns_.who()); });
      require_few(i);
    }
  }
  void merge(Tally& more) override {
    auto& other = static_cast<TokenTally&>(more);
    for (size_t i = 0; i < parts_.size(); ++i) {
      for (size_t k = 0; k < other.parts_[i].counts.size(); ++k) {
        parts_[i].add(other.parts_[i].tokens[k], other.parts_[i].counts[k]);
      }
      require_few(i);
    }
  }
  const std::vector<TokenCounts>& parts() const { return parts_; }

 private:
  void require_few(size_t column) const {
    const auto& tokens = parts_[column].tokens;
    if (tokens.size() <= preprocess::kMostCategories &&
        tokens.bytes() <= preprocess::kMostCategoryBytes) {
      return;
    }
    throw Error(ErrorKind::kInvalidArgument,
                str(columns_.who(), ": column '", columns_.inputs()[column],
                    "' has too many different tokens: more than ", preprocess::kMostCategories,
                    ", or ", preprocess::kMostCategoryBytes >> 20,
                    " MiB of them; use a HashingVectorizer, which keeps none"));
  }

  const internal::Columns& columns_;
  TokenizeFunction function_;
  std::vector<TokenCounts> parts_;
};

// A row of counts for each text: `place_of(token)` is the place of the count that grows, -1: none.
template <class PlaceOf>
std::shared_ptr<arrow::Array> counted(const std::shared_ptr<arrow::Array>& column,
                                      TokenizeFunction function, int64_t width,
                                      const std::string& name, const std::string& who,
                                      PlaceOf place_of) {
  auto counts = preprocess::zeros(column->length() * width * 8);
  auto* values = reinterpret_cast<int64_t*>(counts->mutable_data());
  preprocess::for_each_token(
      column, function, name, who,
      [&](int64_t row, std::string_view token) {
        int64_t place = place_of(token);
        if (place >= 0) ++values[row * width + place];
      },
      [&](int64_t row) { preprocess::throw_null_text(row, name, who); });
  return preprocess::vectors<arrow::Int64Type>(std::move(counts), width, column->length());
}

void require_features(int64_t features, const std::string& who) {
  if (features >= 1 && features <= kMostFeatures) return;
  throw Error(ErrorKind::kInvalidArgument, str(who, ": num_features must be between 1 and ",
                                               kMostFeatures, " (was ", features, ")"));
}

}  // namespace

/// The tokens of a column in the order of their places, and how often they came.
struct CountVectorizer::Vocabulary {
  preprocess::TextTable tokens;
  std::vector<int64_t> counts;
};

CountVectorizer::CountVectorizer(std::vector<std::string> columns,
                                 const CountVectorizerOptions& options)
    : columns_(internal::Columns::in_pairs("CountVectorizer", std::move(columns),
                                           options.output_columns)),
      options_(options),
      function_(internal::find_tokenizer(options.tokenizer)) {
  if (options_.max_features < 0) {
    throw Error(ErrorKind::kInvalidArgument, str("CountVectorizer: max_features must be positive, "
                                                 "or 0 for all tokens (was ",
                                                 options_.max_features, ")"));
  }
}

void CountVectorizer::check_columns(const arrow::Schema& schema) const {
  preprocess::require_texts(columns_, schema);
}

std::unique_ptr<Tally> CountVectorizer::start_tally() const {
  return std::make_unique<TokenTally>(columns_, function_);
}

bool CountVectorizer::finish_tally(Tally& all) {
  std::vector<std::shared_ptr<const Vocabulary>> learned;
  for (const auto& [tokens, counts] : static_cast<TokenTally&>(all).parts()) {
    std::vector<size_t> order(counts.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&, &tokens = tokens, &counts = counts](size_t a, size_t b) {
                return counts[a] != counts[b] ? counts[a] > counts[b] : tokens[a] < tokens[b];
              });
    auto most = static_cast<size_t>(options_.max_features);
    if (most > 0 && order.size() > most) order.resize(most);
    auto vocabulary = std::make_shared<Vocabulary>();
    for (size_t i : order) {
      if (!is_utf8(Json(tokens[i]))) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("CountVectorizer: column '", columns_.inputs()[learned.size()],
                        "' has a token that is not UTF-8: ", short_text(Json(tokens[i]))));
      }
      vocabulary->tokens.insert(tokens[i]);
      vocabulary->counts.push_back(counts[i]);
    }
    learned.push_back(std::move(vocabulary));
  }
  vocabularies_ = std::move(learned);
  return true;
}

data::BatchPtr CountVectorizer::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const auto& tokens = vocabularies_[i]->tokens;
    arrays[i] =
        counted(arrays[i], function_, static_cast<int64_t>(tokens.size()), columns_.inputs()[i],
                name(), [&](std::string_view token) { return tokens.find(token); });
  }
  return columns_.with(batch, std::move(arrays));
}

Json CountVectorizer::stats() const {
  require_fitted(*this);
  Json stats;
  for (size_t i = 0; i < columns_.size(); ++i) {
    Json counts = Json::array();
    for (size_t k = 0; k < vocabularies_[i]->counts.size(); ++k) {
      counts.push_back(Json::array({vocabularies_[i]->tokens[k], vocabularies_[i]->counts[k]}));
    }
    stats[str("token_counts(", columns_.inputs()[i], ")")] = std::move(counts);
  }
  return stats;
}

Json CountVectorizer::state() const {
  Json state;
  columns_.write(state);
  state["tokenizer"] = options_.tokenizer;
  state["max_features"] = options_.max_features;
  for (const auto& vocabulary : vocabularies_) {
    Json tokens = Json::array();
    for (size_t i = 0; i < vocabulary->tokens.size(); ++i) tokens.push_back(vocabulary->tokens[i]);
    state["vocabularies"].push_back(
        {{"tokens", std::move(tokens)}, {"counts", vocabulary->counts}});
  }
  return state;
}

CountVectorizer CountVectorizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("CountVectorizer", fields);
  CountVectorizer vectorizer(columns.inputs(),
                             {.tokenizer = fields.text("tokenizer", data::kLongestName),
                              .max_features = fields.integer("max_features", 0, INT64_MAX),
                              .output_columns = columns.outputs()});
  if (!fields.has("vocabularies")) return vectorizer;
  if (fields.array("vocabularies").size() != columns.size()) {
    fields.fail("vocabularies", str(columns.size(), " objects, one for each column"));
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    auto one = fields.element("vocabularies", i);
    auto vocabulary = std::make_shared<Vocabulary>();
    for (const Json& token : one.array("tokens")) {
      auto size = static_cast<int64_t>(vocabulary->tokens.size());
      if (!token.is_string() ||
          vocabulary->tokens.insert(token.get_ref<const std::string&>()) != size) {
        one.fail("tokens", "texts, each once");
      }
    }
    for (const Json& count : one.array("counts")) {
      if (!count.is_number_integer()) one.fail("counts", "integers");
      vocabulary->counts.push_back(count.get<int64_t>());
    }
    if (vocabulary->counts.size() != vocabulary->tokens.size()) {
      one.fail("counts", "as many as tokens");
    }
    vectorizer.vocabularies_.push_back(std::move(vocabulary));
  }
  return vectorizer;
}

HashingVectorizer::HashingVectorizer(std::vector<std::string> columns, int64_t num_features,
                                     const HashingVectorizerOptions& options)
    : columns_(internal::Columns::in_pairs("HashingVectorizer", std::move(columns),
                                           options.output_columns)),
      num_features_(num_features),
      tokenizer_(options.tokenizer),
      function_(internal::find_tokenizer(options.tokenizer)) {
  require_features(num_features_, name());
}

data::BatchPtr HashingVectorizer::transform_batch(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  auto features = static_cast<uint64_t>(num_features_);
  for (size_t i = 0; i < arrays.size(); ++i) {
    arrays[i] = counted(arrays[i], function_, num_features_, columns_.inputs()[i], name(),
                        [&](std::string_view token) {
                          return static_cast<int64_t>(preprocess::feature_of(token, features));
                        });
  }
  return columns_.with(batch, std::move(arrays));
}

Json HashingVectorizer::state() const {
  Json state;
  columns_.write(state);
  state["num_features"] = num_features_;
  state["tokenizer"] = tokenizer_;
  return state;
}

HashingVectorizer HashingVectorizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("HashingVectorizer", fields);
  return HashingVectorizer(columns.inputs(), fields.integer("num_features", 1, kMostFeatures),
                           {.tokenizer = fields.text("tokenizer", data::kLongestName),
                            .output_columns = columns.outputs()});
}

FeatureHasher::FeatureHasher(std::vector<std::string> columns, int64_t num_features,
                             const std::string& output_column)
    : columns_("FeatureHasher", std::move(columns), {output_column}), num_features_(num_features) {
  require_features(num_features_, name());
  for (const auto& column : columns_.inputs()) {
    places_.push_back(preprocess::feature_of(column, static_cast<uint64_t>(num_features_)));
  }
}

data::BatchPtr FeatureHasher::transform_batch(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  int64_t rows = batch->num_rows();
  auto sums = preprocess::zeros(rows * num_features_ * 8);
  auto* values = reinterpret_cast<double*>(sums->mutable_data());
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto numbers = preprocess::numbers_of(arrays[i], columns_.inputs()[i], name());
    double* to = values + places_[i];
    for (int64_t row = 0; row < rows; ++row, to += num_features_) {
      *to += numbers->IsNull(row) ? NAN : numbers->Value(row);
    }
  }
  return columns_.with(
      batch, {preprocess::vectors<arrow::DoubleType>(std::move(sums), num_features_, rows)});
}

Json FeatureHasher::state() const {
  return {{"columns", columns_.inputs()},
          {"num_features", num_features_},
          {"output_column", columns_.outputs()[0]}};
}

FeatureHasher FeatureHasher::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  return FeatureHasher(fields.texts("columns", data::kLongestName),
                       fields.integer("num_features", 1, kMostFeatures),
                       fields.text("output_column", data::kLongestName));
}

}  // namespace manta
