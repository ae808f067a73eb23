#pragma once

#include <string>

#include "manta/serve/request.h"

namespace manta::serve {

/// Appends the rows [begin, begin + count) as JSON: an object with an array for each column, as
/// json_columns reads it. Numbers have as many digits as reading them back needs; those that JSON
/// does not have are the strings "NaN", "Infinity" and "-Infinity"; a missing value is null. Lists
/// become arrays; times and other types become text.
void append_predictions(std::string& out, const arrow::RecordBatch& batch, int64_t begin,
                        int64_t count);

bool is_utf8(std::string_view text);

/// Appends a JSON string with its quotes. Bytes that are not UTF-8 are replaced.
void append_json_string(std::string& out, std::string_view text);

}  // namespace manta::serve
