#pragma once

#include <memory>
#include <optional>
#include <string>

namespace arrow {
class Array;
}

namespace manta::data {

/// The first value of `given` that is finite but became infinite in `made`, the floating-point
/// numbers (of any size) that a cast has made from `given`. As text, for an error. Nothing if there
/// is none.
std::optional<std::string> first_overflow(const std::shared_ptr<arrow::Array>& given,
                                          const std::shared_ptr<arrow::Array>& made);

}  // namespace manta::data
