#pragma once

#include <memory>
#include <string>

#include "manta/preprocess/category_values_internal.h"
#include "manta/preprocess/text_preprocessors.h"

namespace manta::preprocess {

/// Throws unless the columns are there and hold text.
void require_texts(const internal::Columns& columns, const arrow::Schema& schema);
void require_text(const arrow::DataType& type, const std::string& column, const std::string& who);

/// Calls take(row, token) for each token of a column of text; `null(row)` for a null.
template <class Take, class Null>
void for_each_token(const std::shared_ptr<arrow::Array>& column, TokenizeFunction function,
                    const std::string& name, const std::string& who, Take take, Null null);

/// The error for a null in a column that must not have one.
[[noreturn]] void throw_null_text(int64_t row, const std::string& column, const std::string& who);

// ---- Implementation.

/// The tokens that the user's function makes; an exception of it becomes Error(kUserCode).
std::vector<std::string> tokens_of(TokenizeFunction function, std::string_view text,
                                   const std::string& column, const std::string& who);
std::shared_ptr<arrow::Array> plain_text(const std::shared_ptr<arrow::Array>& column);

template <class Take, class Null>
void for_each_token(const std::shared_ptr<arrow::Array>& column, TokenizeFunction function,
                    const std::string& name, const std::string& who, Take take, Null null) {
  require_text(*column->type(), name, who);
  auto plain = plain_text(column);
  struct Tokens {
    TokenizeFunction function;
    const std::string &name, &who;
    Take& take_token;
    Null& take_null;
    void null(int64_t row) { take_null(row); }
    void integer(int64_t, int64_t) {}
    void huge(int64_t, uint64_t) {}
    void fraction(int64_t, double) {}
    void text(int64_t row, std::string_view text) {
      if (!function) {  // cut at spaces
        for (size_t begin = 0;;) {
          size_t end = text.find(' ', begin);
          take_token(row, text.substr(begin, end - begin));
          if (end == std::string_view::npos) return;
          begin = end + 1;
        }
      }
      for (const auto& token : tokens_of(function, text, name, who)) {
        take_token(row, std::string_view(token));
      }
    }
  };
  for_each_value(*plain, 0, plain->length(), Tokens{function, name, who, take, null});
}

}  // namespace manta::preprocess
