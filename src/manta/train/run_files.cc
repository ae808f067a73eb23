#include <filesystem>
#include <string_view>

#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/folder_lock_internal.h"
#include "manta/train/run_files_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_name_of_run(const std::string& name) {
  for (std::string_view own :
       {"params.json", "journal.jsonl", kLockFile, kStaging, kUploads, kStoreNote}) {
    // The second is what replace_file writes first.
    if (name == own || (name.starts_with(own) && name.substr(own.size()) == ".new")) return true;
  }
  return checkpoint_index(name) || is_partial_checkpoint(name);
}

bool is_name_of_store(const std::string& name) { return name == "owner.json" || name == "journal"; }

OtherFiles other_files(const std::string& run_folder) {
  OtherFiles found;
  for (fs::recursive_directory_iterator it(run_folder), end; it != end; ++it) {
    std::string name = it->path().lexically_relative(run_folder);
    bool is_top = it.depth() == 0;
    if (is_top && is_name_of_run(name)) {
      it.disable_recursion_pending();
    } else if (is_top && is_name_of_store(name)) {
      found.left_out[name] = "the store has something else of that name";
      it.disable_recursion_pending();
    } else if (it->is_symlink()) {
      found.left_out[name] = "a symbolic link";
      it.disable_recursion_pending();
    } else if (it->is_regular_file()) {
      found.names.push_back(std::move(name));
    }
  }
  return found;
}

}  // namespace manta::train
