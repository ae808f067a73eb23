#pragma once

#include <arrow/csv/options.h>
#include <arrow/result.h>

#include <memory>
#include <vector>

#include "manta/data/csv_internal.h"

namespace arrow::csv {
class BlockParser;
class Converter;
}  // namespace arrow::csv

namespace manta::data {

using CsvTypes = std::vector<std::shared_ptr<arrow::DataType>>;

/// What Arrow's parser needs to know of a format. Line ends in quotes belong to values.
arrow::csv::ParseOptions parse_options(const CsvFormat& format);

// ---- csv_fit.cc: from texts to values of a type.

/// Converts texts to values of one type. If Arrow's converters do not make that type, it goes
/// through a type that they make.
class CsvConverter {
 public:
  CsvConverter(std::shared_ptr<arrow::DataType> type, const CsvFormat& format);
  /// Returns Invalid if a text is not of the type.
  arrow::Result<std::shared_ptr<arrow::Array>> convert(const arrow::csv::BlockParser& parser,
                                                       int column) const;

 private:
  const std::shared_ptr<arrow::DataType> type_;
  std::unique_ptr<arrow::csv::ConvertOptions> options_;  // which the converter refers to
  std::shared_ptr<arrow::csv::Converter> converter_;
};

/// The first of these types that the values of a column fit; the last one if none does. Integers of
/// more than 64 bits do not fit float64, unless there are fractions beside them.
std::shared_ptr<arrow::DataType> first_that_fits(const CsvTypes& types,
                                                 const arrow::csv::BlockParser& parser, int column,
                                                 const CsvFormat& format);
/// The types that take most values that `type` takes, and more: to try for a value that does not
/// fit `type`.
CsvTypes wider_types(const arrow::DataType& type);

}  // namespace manta::data
