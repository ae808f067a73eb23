#pragma once

#include <string>
#include <vector>

namespace manta::data {

/// The text in every error about a missing column: "there is no column 'fair'; did you mean 'fare'?
/// There are 'fare', 'tip'". It has at most three names that are similar, ignoring case, and at
/// most 20 of the existing names.
std::string no_such_column(const std::string& name, const std::vector<std::string>& there);

/// At most three existing names that a misspelt name may have meant, nearest first: names that
/// differ only in case, in a third of their letters, or of which one contains the other.
std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& there);

/// Throws Error(kInvalidArgument) if a column is named twice.
void require_distinct(const std::vector<std::string>& names, const std::string& doing);

}  // namespace manta::data
