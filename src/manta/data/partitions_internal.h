#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/data_files_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/source_internal.h"

namespace manta::data {

/// Makes the source of the files, with these of their columns; none: all.
using MakeFileSource =
    std::function<std::shared_ptr<FileSource>(const std::vector<std::string>& columns)>;

/// The files as a data set. If `hive`, folders named `key=value` between what the user named and
/// the file are columns, the same for all rows of a file: int64 if all values are integers, else
/// string; `__HIVE_DEFAULT_PARTITION__` is null; %20 and the like are decoded. They come after the
/// columns of the files. Throws Error(kInvalidArgument) if files have different keys, or if a file
/// has a column of the key's name that is read, too (because no columns are named, or that one is).
Dataset dataset_of_files(const FileKind& kind, const std::vector<FoundFile>& files, bool hive,
                         const std::vector<std::string>& columns, const MakeFileSource& make);

}  // namespace manta::data
