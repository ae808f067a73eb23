#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/data/row_store_internal.h"

namespace manta::data {

/// Reads stored rows from the first to the last.
class StoredReader {
 public:
  StoredReader(std::shared_ptr<const StoredRows> rows, std::vector<std::string> columns);

  /// As AllRows::next.
  BatchPtr next();
  /// The next `rows` rows, or fewer at the end.
  BatchPtr next(int64_t rows);

 private:
  const std::shared_ptr<const StoredRows> rows_;
  const std::vector<std::string> columns_;
  size_t next_fragment_ = 0;
  Batches waiting_;  ///< Batches of the last fragment, in reverse order.
};

}  // namespace manta::data
