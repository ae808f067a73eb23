#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/dataset.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta {

namespace internal {

class JsonFields;

/// The columns that a preprocessor looks at, the columns that it makes from them, and how a batch
/// gets these. Remembers the columns of the last batch: most batches are like the one before, so a
/// served row need not look up names.
class Columns {
 public:
  using Arrays = std::vector<std::shared_ptr<arrow::Array>>;

  /// `who` is the preprocessor's name, for errors. A column that is made replaces the one of that
  /// name, or comes last. Throws Error(kInvalidArgument) if there are no inputs, or a name occurs
  /// twice among inputs or among outputs.
  Columns(std::string who, std::vector<std::string> inputs, std::vector<std::string> outputs,
          std::vector<std::string> removed = {});
  /// One output for each input; none: they replace the inputs.
  static Columns in_pairs(const std::string& who, std::vector<std::string> inputs,
                          std::vector<std::string> outputs);
  Columns(const Columns& from);
  Columns& operator=(const Columns& from);

  const std::string& who() const { return who_; }
  const std::vector<std::string>& inputs() const { return inputs_; }
  const std::vector<std::string>& outputs() const { return outputs_; }
  const std::vector<std::string>& removed() const { return removed_; }
  size_t size() const { return inputs_.size(); }

  /// The inputs. Throws Error(kNotFound) that names all that are missing.
  Arrays of(const arrow::RecordBatch& batch) const;
  void require(const arrow::Schema& schema) const;
  /// The batch with `made`, in the order of the outputs, and without what is removed.
  data::BatchPtr with(const data::BatchPtr& batch, Arrays made) const;

  /// "columns" and, if they differ, "output_columns".
  void write(Json& state) const;
  static Columns read(const std::string& who, const JsonFields& fields);

 private:
  struct Layout;
  std::shared_ptr<const Layout> last() const;
  void keep(std::shared_ptr<const Layout> layout) const;

  std::string who_;
  std::vector<std::string> inputs_, outputs_, removed_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Layout> last_;
};

}  // namespace internal
}  // namespace manta
