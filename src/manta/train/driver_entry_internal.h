#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/core/node.h"
#include "manta/io/channel_internal.h"

namespace manta::train {

/// How the processes of a run, or of an experiment, find their driver and prove that they belong to
/// it: on its node at a Unix socket, on other nodes over TLS, with the token as key. It also says
/// how processes on other nodes find out whether they see the driver's folder.
struct DriverEntry {
  std::string socket;  ///< On the driver's node.
  std::string host;    ///< For other nodes, with `port`; empty on one machine.
  uint16_t port = 0;   ///< Known when the driver listens.
  std::string token;
  std::string folder;  ///< Of the run or the experiment.
  /// The content of the file `kFolderMark` in that folder: a node that finds it shares the folder.
  std::string folder_mark;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(socket, host, port, token, folder, folder_mark);
  }
};
inline constexpr const char* kFolderMark = ".staging/mark";

/// A new entry in the program's run, with its own secrets. Its socket is <kind>-<number>.sock in
/// the session folder.
DriverEntry make_driver_entry(const std::string& kind, const std::string& folder);

/// Writes the mark. Throws Error(kIo).
void mark_folder(const DriverEntry& entry);
/// Whether this node sees the folder, and can write to it.
bool sees_folder(const DriverEntry& entry);

/// Connects a process on that node. Throws Error(kIo) or Error(kTimeout) naming the address.
std::unique_ptr<Channel> connect_to_driver(const DriverEntry& entry, NodeId node);

}  // namespace manta::train
