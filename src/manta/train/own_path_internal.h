#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/train/folder_lock_internal.h"
#include "manta/train/tracker.h"

namespace manta::train {

/// Whether the run's end is among the events.
inline bool has_end(const std::vector<TrackerEvent>& events) {
  return std::holds_alternative<TrackerEvent::RunEnd>(events.back().what);
}

/// A path that the user has given, perhaps to several runs. The first run has it until its end. The
/// others never get it: their events would lack the beginning.
class OwnPath {
 public:
  using Lock = UniqueFd (*)(const std::string& path);
  /// `lock` is lock_file_of_run or lock_folder_of_run. Empty: the files are in the run folder,
  /// which no other run uses.
  OwnPath(std::string path, Lock lock) : path_(std::move(path)), take_(lock) {}
  /// Throws Error(kInvalidArgument) if another run has it; then every later call throws, too.
  /// Error(kIo).
  void hold() {
    if (refused_) throw *refused_;
    if (path_.empty() || lock_) return;
    try {
      lock_ = take_(path_);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kInvalidArgument) refused_ = error;
      throw;
    }
  }
  void release() { lock_.reset(); }

 private:
  const std::string path_;
  const Lock take_;
  UniqueFd lock_;
  std::optional<Error> refused_;
};

}  // namespace manta::train
