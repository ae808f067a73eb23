#pragma once

#include <string>
#include <vector>

namespace manta::data {

/// What every error about a column that is not there says: "there is no column 'fair'; did you mean
/// 'fare'? There are 'fare', 'tip'". At most three names that are like it, ignoring case, and at
/// most 20 of those that there are.
std::string no_such_column(const std::string& name, const std::vector<std::string>& there);

/// The names that a misspelt one may have meant, nearest first, at most three: the same but for
/// case, a third of its letters changed, or one inside the other.
std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& there);

/// Throws Error(kInvalidArgument) if a column is named twice.
void require_distinct(const std::vector<std::string>& names, const std::string& doing);

}  // namespace manta::data
