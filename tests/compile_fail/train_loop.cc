// expect: train_loop_per_worker runs in other processes, where what a lambda captures does not
// exist expect: train_loop_per_worker must be void() or void(const Json& config) expect:
// train_loop_per_worker must be void() or void(const Json& config) expect: train_loop_per_worker
// must be void() or void(const Json& config) expect: train_loop_per_worker must be a plain function
// or a lambda without captures expect: train_loop_per_worker must be a plain function or a lambda
// without captures
#include <manta/train/trainer.h>

void takes_text(const std::string& name);
void takes_two(const manta::Json& config, int rank);

void f(int epochs) {
  manta::TrainLoop captures = [epochs] { (void)epochs; };
  manta::TrainLoop of_text = takes_text;
  manta::TrainLoop of_two = takes_two;
  manta::TrainLoop returns = [](const manta::Json&) { return 0.5; };
  manta::TrainLoop generic = [](const auto&) {};
  manta::TrainLoop number = 5;
}
