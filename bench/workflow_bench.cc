// Measures tuning, trees and serving, as ray_tune.py, ray_trees.py, ray_serve.py and plain_trees.py
// do: prints one JSON object, last.
//   workflow_bench tune-empty --trials N             see tune_figures.h
//   workflow_bench tune-xgboost <table> --trials N
//   workflow_bench train <trips>                     see tree_figures.h
//   workflow_bench make-trees <trips> <folder>
//   workflow_bench predict <trips> <folder>
//   workflow_bench make-served <table> <folder>      see served_model.h
//   workflow_bench serve <folder>

#include <manta/manta.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "served_model.h"
#include "tree_figures.h"
#include "tune_figures.h"

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  CLI::App app("Measures tuning, trees and serving");
  app.require_subcommand(1);
  std::string from, to;
  int trials = 0;
  int64_t start_ns = 0;
  app.add_option("--start-ns", start_ns, "not needed here");
  app.fallthrough();
  std::map<std::string, std::function<manta::Json()>> measure = {
      {"tune-empty", [&] { return tune_empty(trials); }},
      {"tune-xgboost", [&] { return tune_xgboost(from, trials); }},
      {"train", [&] { return train_trees(from); }},
      {"make-trees", [&] { return make_trees(from, to), manta::Json(); }},
      {"predict", [&] { return predict_with_trees(from, to); }},
      {"make-served", [&] { return make_served_model(from, to), manta::Json(); }},
      {"serve", [&] { return serve_model(from), manta::Json(); }}};
  for (const auto& [name, _] : measure) {
    auto* command = app.add_subcommand(name);
    command->add_option("from", from, "file or folder");
    command->add_option("to", to, "folder of a model");
    command->add_option("--trials", trials);
  }
  CLI11_PARSE(app, argc, argv);
  std::string what = app.get_subcommands().front()->get_name();
  try {
    manta::Json figures = measure.at(what)();
    if (!figures.is_null()) std::cout << figures.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "workflow_bench " << what << ": " << error.what() << std::endl;
    return 1;
  }
}
