#include <manta/manta.h>

#include <iostream>

using namespace manta;

// The program's own types, with names that Manta uses inside, too.
struct Clock {};
struct Deadline {};
struct Frame {};
struct Function {};
struct Value {};
struct JsonFields {};
struct PredictorRef {};
int str(int a) { return a; }
int check(int a) { return a; }
int log_info(int a) { return a; }
void log_warning(const std::string& text) { std::cerr << text; }

int add(int a, int b) { return a + b; }

int main(int argc, char** argv) {
  manta::init(argc, argv);
  Clock clock;
  Deadline deadline;
  Frame frame;
  Function function;
  Value value;
  JsonFields fields;
  PredictorRef predictor;
  (void)clock, (void)deadline, (void)frame, (void)function, (void)value, (void)fields,
      (void)predictor;
  log_warning("");
  // Sorted by DuckDB, which is loaded from the installation.
  auto rows = data::range(22).sort("id", {.descending = true}).materialize().count();
  std::cout << log_info(check(str(get(remote(add, 20, static_cast<int>(rows)))))) << "\n";
}
