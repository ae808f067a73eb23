// expect: train_loop_per_worker runs in other processes, where what a lambda captures
// expect: train_loop_per_worker must be void() or void(const Json& config)
// expect: train_loop_per_worker must be void() or void(const Json& config)
// expect: train_loop_per_worker must be void() or void(const Json& config)
// expect: train_loop_per_worker must be a plain function or a lambda without captures
// expect: train_loop_per_worker must be a plain function or a lambda without captures
#include <manta/train/train_loop.h>

void takes_text(const std::string& name);
void takes_two(const manta::Json& config, int rank);
void run(manta::TrainLoop loop);

void f(int epochs) {
  run([epochs] { (void)epochs; });
  run(takes_text);
  run(takes_two);
  run([](const manta::Json&) { return 0.5; });
  run([](const auto&) {});
  run(5);
}
