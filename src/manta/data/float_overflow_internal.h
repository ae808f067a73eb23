#pragma once

#include <memory>
#include <optional>
#include <string>

namespace arrow {
class Array;
}

namespace manta::data {

/// The first value of `given` that is no infinity, and is one in `made`, floating-point numbers of
/// any size that a cast has made of it; as text, for an error. Nothing if there is none.
std::optional<std::string> first_overflow(const std::shared_ptr<arrow::Array>& given,
                                          const std::shared_ptr<arrow::Array>& made);

}  // namespace manta::data
