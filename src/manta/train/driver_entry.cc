#include <unistd.h>

#include <atomic>

#include "manta/base/error_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/tls_internal.h"
#include "manta/train/driver_entry_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {
namespace {

constexpr std::chrono::seconds kConnectDeadline{20};

// The address of this machine, if there are, or may be, other nodes.
std::string driver_address() {
  std::string address = nodes().front().address;
  return address.empty() ? "" : parse_address(address).host;
}

}  // namespace

DriverEntry make_driver_entry(const std::string& kind, const std::string& folder) {
  static std::atomic<int> count{0};
  DriverEntry entry;
  entry.socket = str(current_session_folder(), "/", kind, "-", count++, ".sock");
  entry.host = driver_address();
  entry.token = random_token();
  entry.folder = folder;
  entry.folder_mark = random_token();
  return entry;
}

void mark_folder(const DriverEntry& entry) {
  make_folders(entry.folder + "/" + kStaging);
  replace_file(entry.folder + "/" + kFolderMark, entry.folder_mark);
}

bool sees_folder(const DriverEntry& entry) {
  try {
    bool marked = read_text(entry.folder + "/" + kFolderMark, 4096) == entry.folder_mark;
    return marked && ::access((entry.folder + "/" + kStaging).c_str(), W_OK) == 0;
  } catch (const Error&) {
    return false;
  }
}

std::unique_ptr<Channel> connect_to_driver(const DriverEntry& entry, NodeId node) {
  if (node == 0) return std::make_unique<Channel>(connect_unix(entry.socket));
  return std::make_unique<Channel>(
      connect_tls(TlsKey(entry.token), entry.host, entry.port, Deadline::after(kConnectDeadline)));
}

}  // namespace manta::train
