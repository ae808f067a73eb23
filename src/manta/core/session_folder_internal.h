#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// A run's temporary folder, readable by this user only. It is removed when the run ends. If the
/// driver dies, the zygote removes it. If both die at once, the next run in the same place removes
/// it (after a minute, if they died before the folder had its lock).
class SessionFolder {
 public:
  /// `parent` empty: the system's temporary folder. Throws Error(kIo) that names the folder if it
  /// cannot be made.
  explicit SessionFolder(const std::string& parent);
  enum NotYet { kNotYet };
  /// Only chooses a name. `make` makes the folder, once there is a zygote that would remove it.
  SessionFolder(const std::string& parent, NotYet);
  void make();
  ~SessionFolder();

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool made_ = false;
  UniqueFd lock_;  // held for as long as the run lives
};

/// The folder of the run that this process drives. Throws Error(kInvalidArgument) if it drives
/// none.
const std::string& current_session_folder();

/// Where any process puts large files that it needs for a while: the folder of the run that it
/// drives or works for, which goes away with the run, or else the system's temporary folder.
std::string temporary_folder();

/// The same for files that may be needed after the run has ended: a folder of this process alone,
/// which is removed with its last holder. If the process is killed, a worker's folder is removed
/// with the run's folder, and the folder of any other process by the next run in the same place.
std::shared_ptr<const SessionFolder> own_temporary_folder();

/// A new folder in own_temporary_folder(), whose name begins with `kind`: the folder is removed
/// with the last holder of its path.
std::shared_ptr<const std::string> new_temporary_folder(std::string_view kind);

}  // namespace manta
