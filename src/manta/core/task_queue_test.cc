#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manta/base/names_internal.h"
#include "manta/core/task_queue_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Resources kSmall{.cpus = 1};
const Resources kLarge{.cpus = 4};
const Resources kGpu{.cpus = 0, .gpus = 1};

// The order in which tasks start if everything fits.
std::vector<ObjectId> start_all(TaskQueue& queue) {
  std::vector<ObjectId> order;
  for (auto shapes = queue.shapes(); !shapes.empty(); shapes = queue.shapes()) {
    order.push_back(shapes[0]->front());
    queue.pop_front(*shapes[0]);
  }
  return order;
}

TEST(TaskQueueTest, TheOldestComesFirst) {
  TaskQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_THAT(queue.shapes(), IsEmpty());
  for (ObjectId id : {5u, 3u, 9u}) queue.push_back(id, 0, kSmall);
  EXPECT_EQ(queue.size(), 3u);
  EXPECT_THAT(start_all(queue), ElementsAre(5, 3, 9));
  EXPECT_TRUE(queue.empty());
}

TEST(TaskQueueTest, DepthComesBeforeAge) {
  TaskQueue queue;
  queue.push_back(1, 0, kSmall);
  queue.push_back(2, 2, kSmall);
  queue.push_back(3, 1, kLarge);
  queue.push_back(4, 2, kLarge);
  queue.push_back(5, 0, kLarge);
  EXPECT_THAT(start_all(queue), ElementsAre(2, 4, 3, 1, 5));
}

TEST(TaskQueueTest, ShapesAreInTheOrderOfTheirFirstTasks) {
  TaskQueue queue;
  queue.push_back(1, 0, kLarge);
  queue.push_back(2, 0, kSmall);
  queue.push_back(3, 0, kLarge);
  queue.push_back(4, 1, kGpu);
  auto shapes = queue.shapes();
  ASSERT_EQ(shapes.size(), 3u);
  EXPECT_EQ(shapes[0]->need.request.resources, kGpu);
  EXPECT_EQ(shapes[1]->need.request.resources, kLarge);
  EXPECT_EQ(shapes[2]->need.request.resources, kSmall);
  EXPECT_EQ(shapes[1]->size(), 2u);
  queue.pop_front(*shapes[0]);
  queue.pop_front(*shapes[1]);
  shapes = queue.shapes();
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0]->front(), 2u);
  EXPECT_EQ(shapes[1]->front(), 3u);
}

TEST(TaskQueueTest, WhatCameBackIsBeforeItsDepthButNotBeforeDeeperOnes) {
  TaskQueue queue;
  queue.push_back(1, 0, kSmall);
  queue.push_back(2, 1, kSmall);
  queue.push_front(3, 0, kSmall);
  queue.push_front(4, 0, kLarge);
  EXPECT_THAT(start_all(queue), ElementsAre(2, 4, 3, 1));
}

TEST(TaskQueueTest, Remove) {
  TaskQueue queue;
  for (ObjectId id : {1u, 2u, 3u}) queue.push_back(id, 0, kSmall);
  queue.push_back(4, 1, kSmall);
  queue.remove(2, 0, kSmall);
  queue.remove(4, 1, kSmall);
  EXPECT_EQ(queue.size(), 2u);
  queue.remove(99, 0, kSmall);  // what is not there
  queue.remove(1, 7, kSmall);
  queue.remove(1, 0, kGpu);
  EXPECT_EQ(queue.size(), 2u);
  EXPECT_THAT(start_all(queue), ElementsAre(1, 3));
}

TEST(TaskQueueTest, ShapesThatAreUsedUpAreForgotten) {
  TaskQueue queue;
  for (ObjectId id = 1; id <= 1000; ++id) {
    Resources shape{.memory = static_cast<int64_t>(id)};
    queue.push_back(id, 0, shape);
    queue.push_back(id + 5000, 0, shape);
    queue.remove(id + 5000, 0, shape);
  }
  EXPECT_EQ(queue.shapes().size(), 1000u);
  EXPECT_EQ(start_all(queue).size(), 1000u);
  EXPECT_THAT(queue.shapes(), IsEmpty());
  queue.push_back(1, 0, kSmall);
  EXPECT_THAT(start_all(queue), ElementsAre(1));
}

TEST(TaskQueueTest, Compete) {
  Resources none{.cpus = 0}, memory{.cpus = 0, .memory = 5};
  Resources disk{.cpus = 0, .custom = {{"disk", 1}}}, tape{.cpus = 0, .custom = {{"tape", 1}}};
  Resources no_disk{.cpus = 0, .custom = {{"disk", 0}}};
  Resources all{.cpus = 1, .gpus = 1, .memory = 1, .custom = {{"disk", 1}, {"tape", 1}}};
  struct Case {
    Resources a, b;
    bool result;
  };
  for (const auto& [a, b, result] : std::vector<Case>{{kSmall, kLarge, true},
                                                      {kSmall, kGpu, false},
                                                      {kGpu, kGpu, true},
                                                      {memory, memory, true},
                                                      {memory, kSmall, false},
                                                      {disk, disk, true},
                                                      {disk, tape, false},
                                                      {disk, no_disk, false},
                                                      {none, all, false},
                                                      {none, none, false},
                                                      {all, kGpu, true},
                                                      {all, tape, true}}) {
    SCOPED_TRACE(to_string(a) + " / " + to_string(b));
    EXPECT_EQ(compete(a, b), result);
    EXPECT_EQ(compete(b, a), result);
  }
}

}  // namespace
}  // namespace manta
