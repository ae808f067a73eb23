#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/core/ledger_internal.h"
#include "manta/core/messages_internal.h"

namespace manta {

/// What a task needs to start.
struct Need {
  Request request;
  Placement placement = Placement::kPack;
  bool creates_actor = false;  ///< Those queue apart: other limits hold for them.
  /// What all members of its gang ask for, itself included; empty for one that starts by itself.
  std::vector<Request> gang = {};

  Need(Resources resources, bool creates = false)  // NOLINT: as good as
      : request{std::move(resources), {}}, creates_actor(creates) {}
  explicit Need(const TaskSpec& spec)
      : request{spec.resources, spec.labels},
        placement(spec.placement),
        creates_actor(spec.kind == TaskKind::kActorCreate) {}
  bool operator==(const Need&) const = default;
};

/// Tasks that could start, by what they ask for. Deeper ones (started by tasks) come first, so that
/// a tree of tasks is walked in depth and few processes wait at a time; then the older ones. Not
/// thread-safe.
class TaskQueue {
 public:
  /// Tasks that need the same.
  struct Shape {
    explicit Shape(const Need& need) : need(need) {}
    Need need;
    /// How often a younger task of another shape started while this one waited.
    int passed_over = 0;
    /// Since when it waits for a node that is not there, if it does.
    std::optional<Clock::time_point> waits_for_node = {};
    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    ObjectId front() const { return buckets_.begin()->second.front().id; }

   private:
    friend class TaskQueue;
    struct Entry {
      ObjectId id;
      uint64_t order;
    };
    // A task that comes later has not waited yet.
    void note_removal() {
      if (!empty()) return;
      passed_over = 0;
      waits_for_node.reset();
    }

    size_t size_ = 0;
    std::map<uint32_t, std::deque<Entry>, std::greater<>> buckets_;  // by depth
  };

  void push_back(ObjectId id, uint32_t depth, const Need& need);
  /// For a task that was sent and came back.
  void push_front(ObjectId id, uint32_t depth, const Need& need);
  void pop_front(Shape& shape);
  void remove(ObjectId id, uint32_t depth, const Need& need);
  /// Takes out all for which `leaves` is true, in the order in which they would have started.
  std::vector<ObjectId> take_if(const std::function<bool(ObjectId)>& leaves);

  /// The shapes that have tasks, in the order in which their first tasks should start.
  std::vector<Shape*> shapes();
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  /// Also of those that have had tasks.
  size_t num_shapes() const { return shapes_.size(); }

 private:
  Shape& shape_of(const Need& need);

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
