#include "status.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <sstream>

#include "runs.h"

namespace manta::cli {
namespace {

using nlohmann::json;

// Names come from users: characters that a terminal would take for commands are not shown.
std::string plain(std::string text) {
  for (char& each : text) {
    if (static_cast<unsigned char>(each) < ' ' || each == 127) each = '?';
  }
  return text;
}

std::string text_of(const json& value, const char* key) {
  return plain(value.value(key, std::string()));
}

std::string amount_text(const std::string& name, double amount) {
  std::ostringstream out;
  if (name == "memory") {
    out << std::fixed << std::setprecision(1) << amount / (1 << 30) << " GiB";
  } else {
    out << amount;
  }
  return out.str();
}

// "3 of 4 CPU, 0 of 2 license".
std::string held(const json& node) {
  std::string text;
  for (const auto& [name, total] : node.at("total").items()) {
    double all = total.get<double>();
    double free = node.at("free").value(name, 0.0);
    text += (text.empty() ? "" : ", ") + amount_text(name, all - free) + " of " +
            amount_text(name, all) + " " + plain(name);
  }
  return text;
}

std::string duration_text(double seconds) {
  auto whole = static_cast<long>(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  if (whole < 3600) return std::to_string(whole / 60) + " min";
  return std::to_string(whole / 3600) + " h " + std::to_string(whole % 3600 / 60) + " min";
}

void show_table(const std::vector<std::vector<std::string>>& rows, std::ostream& out) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    out << "  ";
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      out << std::left << std::setw(static_cast<int>(widths[i]) + 2) << row[i];
    }
    out << row.back() << "\n";
  }
}

void show_processes(const json& status, std::ostream& out) {
  std::vector<std::vector<std::string>> rows{{"process", "pid", "node", "is at"}};
  for (const json& process : status.at("processes")) {
    std::string does = text_of(process, "does");
    if (does.empty()) does = process.value("idle", false) ? "nothing" : "";
    std::string actor = text_of(process, "actor");
    if (!actor.empty()) does = actor + (does.empty() ? "" : ": " + does);
    rows.push_back({text_of(process, "name"), std::to_string(process.value("pid", 0)),
                    std::to_string(process.value("node", 0)), does});
  }
  if (rows.size() > 1) show_table(rows, out);
}

void show_driver(const FoundRun& run, bool processes, std::ostream& out) {
  const json& status = run.status;
  std::string program = std::filesystem::path(text_of(status, "program")).filename();
  out << program << " (pid " << run.pid << "), for " << duration_text(status.value("seconds", 0.0))
      << ", in " << run.folder << "\n";
  std::vector<std::vector<std::string>> rows{{"node", "host", "state", "processes", "held"}};
  for (const json& node : status.at("nodes")) {
    rows.push_back({std::to_string(node.value("id", 0)), text_of(node, "host"),
                    text_of(node, "state"), std::to_string(node.value("processes", 0)),
                    held(node)});
  }
  show_table(rows, out);
  if (processes) show_processes(status, out);
  size_t for_room = status.value("waiting_for_room", size_t{0});
  out << "  " << status.value("running", 0) << " run or are sent, " << for_room
      << " wait for room, " << status.value("waiting_for_arguments", 0)
      << " wait for their arguments\n";
  size_t told = 0;
  for (const json& waiting : status.at("waiting")) {
    size_t tasks = waiting.value("tasks", size_t{0});
    told += tasks;
    out << "  " << tasks << (tasks == 1 ? " waits: " : " wait, the first: ")
        << text_of(waiting, "why") << "\n";
  }
  if (told < for_room)
    out << "  " << for_room - told << " others wait that ask for something else\n";
}

}  // namespace

int show_status(const StatusOptions& options, std::ostream& out) {
  std::string folder =
      options.folder.empty() ? std::filesystem::temp_directory_path().string() : options.folder;
  auto timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1000));
  auto runs = find_runs(folder, timeout);
  if (runs.empty() && !options.json) out << "no runs of this user in " << folder << "\n";
  int code = 0;
  for (const FoundRun& run : runs) {
    std::string who = "process " + std::to_string(run.pid) + ", in " + run.folder;
    if (run.state == FoundRun::kSilent) code = 1;
    if (options.json) {
      json line = run.status.is_object() ? run.status : json{{"pid", run.pid}};
      line["folder"] = run.folder;
      line["state"] = run.state == FoundRun::kAnswered ? "answered"
                      : run.state == FoundRun::kEnded  ? "ended"
                      : run.state == FoundRun::kSilent ? "silent"
                                                       : "not yet";
      out << line.dump() << "\n";
      continue;
    }
    switch (run.state) {
      case FoundRun::kEnded:
        out << who << ": has ended, and so has what was to remove its folder; the next run does\n";
        break;
      case FoundRun::kSilent:
        out << who << ": has not answered in " << options.timeout_seconds
            << " s: it is stopped, or very busy; --timeout waits longer\n";
        break;
      case FoundRun::kNotYet:
        out << who << ": is starting or ending\n";
        break;
      case FoundRun::kAnswered:
        if (text_of(run.status, "role") == "agent") {
          out << who << ": the agent of node " << run.status.value("node", 0) << ", with "
              << run.status.value("processes", 0) << " processes, of the run whose driver is at "
              << text_of(run.status, "driver") << "\n";
        } else if (run.status.value("format", 0) == 1) {
          show_driver(run, options.processes, out);
        } else {
          out << who << ": is of another version of Manta\n";
        }
    }
  }
  return code;
}

}  // namespace manta::cli
