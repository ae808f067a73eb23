// The command `manta`.

#include <CLI/CLI.hpp>
#include <iostream>

#include "status.h"

int main(int argc, char** argv) {
  CLI::App app("Looks after runs of programs that use Manta.", "manta");
  app.require_subcommand(1);
  manta::cli::StatusOptions options;
  auto* status = app.add_subcommand(
      "status", "Shows this user's runs on this machine: their nodes, and what waits and why.");
  status->add_option("--temporary-folder", options.folder,
                     "Where to look for runs: InitOptions::temporary_folder of the program. "
                     "Default: $TMPDIR, or /tmp");
  status->add_option("--timeout", options.timeout_seconds, "Seconds that each run has to answer")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  status->add_flag("--processes", options.processes, "Shows each process and what it is at");
  status->add_flag("--json", options.json, "Prints what runs say as JSON, a line for each");
  CLI11_PARSE(app, argc, argv);
  try {
    return manta::cli::show_status(options, std::cout);
  } catch (const std::exception& error) {
    std::cerr << "manta status: " << error.what() << "\n";
    return 1;
  }
}
