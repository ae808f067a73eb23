#include <gtest/gtest.h>
#include <torch/types.h>

#include "manta/torch/torch_worker_internal.h"

namespace manta::train {
namespace {

TEST(TorchWorkerTest, AnErrorOfLibtorchIsToldWithoutItsStack) {
  try {
    torch::zeros({2}).add(torch::zeros({3}));
    FAIL() << "shapes that do not fit were added";
  } catch (const std::exception& error) {
    std::string text = torch_error_text(error);
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_NE(text.find("must match the size"), std::string::npos) << text;
  }
  EXPECT_EQ(torch_error_text(std::runtime_error("of the user's\nown")), "of the user's\nown");
}

TEST(TorchWorkerTest, AGradientCountsByItsRows) {
  EXPECT_EQ(gradient_weight(std::nullopt, 4), 1);
  data::Rows step{100, 10};
  EXPECT_DOUBLE_EQ(gradient_weight(data::StepTaken{step, {100, 5}}, 2), 1);
  double sum = 0;
  for (int rank = 0; rank < 3; ++rank) {
    sum += gradient_weight(data::StepTaken{step, data::slice_of(step, rank, 3)}, 3);
  }
  EXPECT_DOUBLE_EQ(sum, 3);
}

}  // namespace
}  // namespace manta::train
