#pragma once

#include <optional>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::serve {

/// Where a detached front listens for other programs of its user.
struct FrontAddress {
  std::string socket_path;
  std::string token;
};

/// The detached fronts of this user, by name: a file for each in a folder of the system's temporary
/// folder that only this user may enter. The file names the front's own folder. The socket and the
/// token are in that folder, so when a front is killed they are removed with its run.
class ServeRegistry {
 public:
  /// Throws Error(kInvalidArgument) if the name is not one, Error(kIo) if the folder cannot be used
  /// or belongs to another user.
  explicit ServeRegistry(const std::string& name);

  /// The file to which the front of that name and its replicas write their output.
  std::string log_path() const;
  /// The front of that name, if its file is there. It may have died since.
  std::optional<FrontAddress> find() const;

  /// For the front itself: it has the name, and the log, until this object goes. Nothing if another
  /// front has the name.
  class Entry {
   public:
    Entry(UniqueFd lock, std::string lock_path, std::string file_path);
    ~Entry();
    Entry(Entry&&) = default;
    /// Writes the token to the run's folder, and lets programs find it.
    void publish(const FrontAddress& address) const;

   private:
    UniqueFd lock_;  // empty once moved from
    std::string lock_path_, file_path_;
  };
  std::optional<Entry> claim() const;

 private:
  std::string folder_, name_;
};

}  // namespace manta::serve
