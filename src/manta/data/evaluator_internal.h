#pragma once

#include <arrow/compute/api.h>
#include <arrow/datum.h>

#include <memory>
#include <string>
#include <vector>

#include "manta/data/expression_internal.h"

namespace manta::data {

/// Computes an expression on the rows of a piece, node by node: each node gives a column of values,
/// or a constant. The functions of the function table (expression_function_internal.h) compute with
/// its methods.
class Evaluator {
 public:
  Evaluator(const Expression& expression, const Piece& piece)
      : expression_(expression), piece_(piece) {}

  arrow::Datum value(const ExpressionNode& node);
  /// An argument in the form that the kernels take: without encodings.
  arrow::Datum operand(const ExpressionNode& node, size_t index);
  int64_t rows() const { return piece_.rows; }
  const Piece& piece() const { return piece_; }
  const Expression& expression() const { return expression_; }

  /// Calls an Arrow function.
  arrow::Datum call(const char* function, const std::vector<arrow::Datum>& arguments,
                    const arrow::compute::FunctionOptions* options = nullptr);
  /// Converts; a value that does not fit is an error.
  arrow::Datum cast(const arrow::Datum& value, const std::shared_ptr<arrow::DataType>& type);
  /// Converts; numbers are rounded to a floating type.
  arrow::Datum promote(const arrow::Datum& value, const std::shared_ptr<arrow::DataType>& type);
  std::shared_ptr<arrow::Array> as_array(const arrow::Datum& value);
  /// A text constant beside a time is that time; other values stay.
  arrow::Datum as_time_beside(const arrow::Datum& value, const arrow::DataType& beside);
  /// Converts all values to one type that holds each of them: a constant takes a column's type if
  /// that type holds it, integers of different types become int64, other numbers float64, times and
  /// durations get the finest unit. Errors name the node.
  std::vector<arrow::Datum> as_one_type(const ExpressionNode& node,
                                        std::vector<arrow::Datum> values);

  /// "in <expression>: cannot compute <node> with column 'a' of type string; <hint>".
  [[noreturn]] void throw_types(const ExpressionNode& node, const std::string& hint);
  /// "in <expression>: <what>".
  [[noreturn]] void fail(const std::string& what) const;

  /// The text of a long expression takes longer than computing it: only for errors.
  template <class T>
  T get(arrow::Result<T> result) const {
    if (!result.ok()) fail_status(result.status());
    return std::move(result).ValueUnsafe();
  }

 private:
  [[noreturn]] void fail_status(const arrow::Status& status) const;
  arrow::Datum column(const std::string& name);
  arrow::Datum inverted(const ExpressionNode& node);
  arrow::Datum chain(const ExpressionNode& node);
  arrow::Datum comparison(const ExpressionNode& node);
  arrow::Datum time_from_text(const arrow::Datum& text, const arrow::DataType& beside);

  const Expression& expression_;
  const Piece& piece_;
};

/// + - * / % and unary -, of numbers, times, durations and texts (arithmetic.cc).
arrow::Datum arithmetic(Evaluator& evaluator, const ExpressionNode& node);
/// A constant of an expression.
arrow::Datum literal_value(const Literal& literal);

bool is_time_or_date(const arrow::DataType& type);
/// Throws if one of two times has a time zone and the other has none.
void require_same_zones(Evaluator& evaluator, const ExpressionNode& node,
                        const arrow::DataType& left, const arrow::DataType& right);
/// Numbers in the types of arithmetic: integers as int64, which must hold them, others as float64.
/// Nulls stay.
arrow::Datum wide_numbers(Evaluator& evaluator, const ExpressionNode& node,
                          const arrow::Datum& value, const std::string& hint);

}  // namespace manta::data
