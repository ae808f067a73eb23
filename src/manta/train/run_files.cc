#include <filesystem>
#include <string_view>

#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/folder_lock_internal.h"
#include "manta/train/run_files_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

bool is_of_checkpoints(const std::string& name) {
  return name == kStaging || checkpoint_index(name) || is_partial_checkpoint(name);
}

}  // namespace

bool is_name_of_run(const std::string& path, const FolderKind& kind) {
  size_t slash = path.find('/');
  std::string name = path.substr(0, slash);
  for (std::string_view own :
       {std::string_view(kind.document), std::string_view("journal.jsonl"),
        std::string_view(kLockFile), std::string_view(kUploads), std::string_view(kStoreNote)}) {
    // The second name is that of the temporary file of replace_file.
    if (name == own || (name.starts_with(own) && name.substr(own.size()) == ".new")) return true;
  }
  if (name == kStaging) return true;
  if (kind.trials == FolderKind::kNone) return is_of_checkpoints(name);
  if (!name.starts_with("trial_") || slash == std::string::npos) return false;
  if (kind.trials == FolderKind::kRuns) return true;
  size_t next = path.find('/', slash + 1);
  return is_of_checkpoints(
      path.substr(slash + 1, next == std::string::npos ? next : next - slash - 1));
}

bool is_name_of_store(const std::string& name) { return name == "owner.json" || name == "journal"; }

OtherFiles other_files(const std::string& folder, const FolderKind& kind) {
  OtherFiles found;
  for (fs::recursive_directory_iterator it(folder), end; it != end; ++it) {
    std::string name = it->path().lexically_relative(folder);
    bool is_top = it.depth() == 0;
    if (it.depth() <= 1 && is_name_of_run(name, kind)) {
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
