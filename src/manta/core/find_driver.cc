#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iostream>
#include <thread>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/find_driver_internal.h"

namespace manta {
namespace {

constexpr std::chrono::milliseconds kFindDeadline{20'000};
constexpr std::chrono::seconds kOrderDeadline{60};
// The time for one try: the address of a driver that is gone may not answer at all.
constexpr std::chrono::seconds kOneTry{5};
constexpr std::chrono::milliseconds kPause{500};

FoundDriver connect_by(const std::string& text, Deadline deadline) {
  AgentOrder order = AgentOrder::parse(text);
  if (order.build_id != program_build_id()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("this program is of build ", to_hex(program_build_id()), ", the driver of build ",
            to_hex(order.build_id), "; run the same binary everywhere"));
  }
  auto connection = connect_tls(TlsKey(order.token), order.host, order.port, deadline);
  return {std::move(order), std::move(connection)};
}

struct JoinFile {
  std::string path;
  std::chrono::milliseconds wait = kFindDeadline;
};

JoinFile parse_file(const std::string& from) {
  const std::string begin = "file:", option = ";wait=";
  JoinFile file;
  size_t end = from.rfind(option);
  if (end != std::string::npos) {
    double seconds = 0;
    const char* last = from.data() + from.size();
    auto [stop, error] = std::from_chars(from.data() + end + option.size(), last, seconds);
    if (error != std::errc() || stop != last || !(seconds > 0) || seconds > 1e6) {
      throw Error(ErrorKind::kInvalidArgument,
                  str(kNodeVariable, " is '", from, "': wait must be a number of seconds above 0"));
    }
    file.wait = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  }
  if (!from.starts_with(begin)) {
    throw Error(ErrorKind::kInvalidArgument,
                str(kNodeVariable, " is '", from, "': it must be 'stdin', '", kHeldByInput,
                    "', or 'file:' and a path"));
  }
  file.path = from.substr(begin.size(), end == std::string::npos ? end : end - begin.size());
  return file;
}

std::string read_file(const std::string& path) {
  std::string text;
  std::ifstream file(path);
  if (!std::getline(file, text)) {
    throw Error(ErrorKind::kIo, str("the file '", path, "' cannot be read: start the driver with ",
                                    "MANTA_CLUSTER=\"join:...;file=", path, "\""));
  }
  return text;
}

}  // namespace

FoundDriver find_driver(const std::string& from) {
  if (from == "stdin" || from == kHeldByInput) {
    std::string text = AgentOrder::read_line(STDIN_FILENO, kOrderDeadline);
    return connect_by(text, Deadline::after(kFindDeadline));
  }
  JoinFile file = parse_file(from);
  Deadline deadline = Deadline::after(file.wait);
  for (bool told = false;; told = true) {
    try {
      return connect_by(read_file(file.path), Deadline::after(kOneTry));
    } catch (const Error& error) {
      double seconds = static_cast<double>(file.wait.count()) / 1000;
      if (deadline.passed()) {
        throw Error(error.kind(), str("no driver could be joined by the file '", file.path, "' in ",
                                      seconds, " s: ", error.what()));
      }
      if (!told) {
        std::cerr << "manta: the agent of this node waits up to " << seconds
                  << " s for a driver: " << error.what() << std::endl;
      }
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace manta
