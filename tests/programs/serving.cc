// A program that serves a model, for tests that kill it or start it again.
//
//   serving stay <checkpoint>              serves until Ctrl-C
//   serving detached <name> <checkpoint>   starts a detached front, or joins it, deploys, and ends
//   serving status <name>                  prints how many deployments the detached front has
//   serving shutdown <name>                ends the detached front
//
// Each prints the URL first, and "detached" then the front's process. The model adds up the columns
// whose names are in the checkpoint's file "columns".

#include <arrow/api.h>
#include <manta/manta.h>

#include <fstream>
#include <iostream>

#include "usage.h"

using namespace manta;

class Sum final : public Predictor {
 public:
  static Sum from_checkpoint(const Checkpoint& checkpoint) {
    std::ifstream file(checkpoint.file("columns"));
    std::vector<std::string> names;
    for (std::string name; file >> name;) names.push_back(name);
    return Sum(std::move(names));
  }

 protected:
  data::BatchPtr predict_features(const data::BatchPtr& features) const override {
    std::vector<double> sums(static_cast<size_t>(features->num_rows()));
    for (const auto& name : names_) {
      auto column = features->GetColumnByName(name);
      if (column->type_id() != arrow::Type::DOUBLE) {
        throw Error(ErrorKind::kInvalidArgument, "the column " + name + " must be float64");
      }
      const auto& values = static_cast<const arrow::DoubleArray&>(*column);
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += values.Value(static_cast<int64_t>(i));
    }
    arrow::DoubleBuilder builder;
    (void)builder.AppendValues(sums);
    auto array = builder.Finish().ValueOrDie();
    return arrow::RecordBatch::Make(arrow::schema({arrow::field("predictions", array->type())}),
                                    array->length(), {array});
  }

 private:
  explicit Sum(std::vector<std::string> names) : Predictor({}, names), names_(std::move(names)) {}

  std::vector<std::string> names_;
};

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  const char* text =
      "serving stay <checkpoint> | detached <name> <checkpoint> | status <name> | shutdown <name>";
  if (auto done = usage(argc, argv, text, 2, 3)) return *done;
  std::string what = argv[1];
  auto deployment = PredictorDeployment::options({.name = "sum", .resources = {.cpus = 0}});
  if (what == "stay") {
    serve::start({.http = {.port = 0}});
    deployment.deploy<Sum>(Checkpoint::from_directory(argv[2]));
    std::cout << deployment.url() << std::endl;
    serve::wait();
    std::cout << "ended" << std::endl;
    return 0;
  }
  // The first program chooses the port.
  if (what == "detached" && argc == 4) {
    serve::start({.detached = true, .name = argv[2], .http = {.port = 0}});
    deployment.deploy<Sum>(Checkpoint::from_directory(argv[3]));
    std::cout << deployment.url() << "\n" << serve::status().pid << std::endl;
    return 0;
  }
  serve::start({.detached = true, .name = argv[2], .http = {.port = 0}});
  std::cout << serve::status().url << std::endl;
  if (what == "status") std::cout << serve::status().deployments.size() << std::endl;
  if (what == "shutdown") serve::shutdown();
} catch (const Error& error) {
  std::cout << error.what() << std::endl;
  return 1;
}
