#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/messages_internal.h"

namespace manta {

/// Tasks that could start, by what they ask for. Deeper ones (started by tasks) come first, so that
/// a tree of tasks is walked in depth and few processes wait at a time; then the older ones. Not
/// thread-safe.
class TaskQueue {
 public:
  /// Tasks that ask for the same.
  struct Shape {
    Resources resources;
    bool creates_actors = false;  ///< Those queue apart: other limits hold for them.
    int passed_over =
        0;  ///< How often a younger task of another shape started while this one waited.
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    ObjectId front() const { return buckets_.begin()->second.front().id; }

   private:
    friend class TaskQueue;
    struct Entry {
      ObjectId id;
      uint64_t order;
    };
    size_t size_ = 0;
    std::map<uint32_t, std::deque<Entry>, std::greater<>> buckets_;  // by depth
  };

  void push_back(ObjectId id, uint32_t depth, const Resources& resources,
                 bool creates_actor = false);
  /// For a task that was sent and came back.
  void push_front(ObjectId id, uint32_t depth, const Resources& resources,
                  bool creates_actor = false);
  void pop_front(Shape& shape);
  void remove(ObjectId id, uint32_t depth, const Resources& resources, bool creates_actor = false);

  /// The shapes that have tasks, in the order in which their first tasks should start.
  std::vector<Shape*> shapes();
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  Shape& shape_of(const Resources& resources, bool creates_actor);

  std::list<Shape> shapes_;
  size_t size_ = 0;
  uint64_t next_order_ = 1ull << 62;   // counts up at the back,
  uint64_t front_order_ = 1ull << 62;  // down at the front
};

/// A shape that was passed over so often keeps what it waits for from younger tasks.
inline constexpr int kMaxPassedOver = 64;

/// True if both ask for some of the same resource.
bool compete(const Resources& a, const Resources& b);

}  // namespace manta
