#include <algorithm>

#include "manta/base/names_internal.h"
#include "manta/core/resources_internal.h"
#include "manta/core/task_queue_internal.h"

namespace manta {

TaskQueue::Shape& TaskQueue::shape_of(const Need& need) {
  for (auto& shape : shapes_) {
    if (shape.need == need) return shape;
  }
  return shapes_.emplace_back(need);
}

void TaskQueue::push_back(ObjectId id, uint32_t depth, const Need& need) {
  Shape& shape = shape_of(need);
  shape.buckets_[depth].push_back({id, next_order_++});
  ++shape.size_;
  ++size_;
}

void TaskQueue::push_front(ObjectId id, uint32_t depth, const Need& need) {
  Shape& shape = shape_of(need);
  shape.buckets_[depth].push_front({id, --front_order_});
  ++shape.size_;
  ++size_;
}

void TaskQueue::pop_front(Shape& shape) {
  auto bucket = shape.buckets_.begin();
  bucket->second.pop_front();
  if (bucket->second.empty()) shape.buckets_.erase(bucket);
  --shape.size_;
  --size_;
  shape.note_removal();
}

std::vector<ObjectId> TaskQueue::take_if(const std::function<bool(ObjectId)>& leaves) {
  std::vector<ObjectId> taken;
  for (Shape* shape : shapes()) {
    for (auto& [depth, entries] : shape->buckets_) {
      std::erase_if(entries, [&](const Shape::Entry& entry) {
        if (!leaves(entry.id)) return false;
        taken.push_back(entry.id);
        --shape->size_;
        --size_;
        return true;
      });
    }
    std::erase_if(shape->buckets_, [](const auto& bucket) { return bucket.second.empty(); });
    shape->note_removal();
  }
  return taken;
}

void TaskQueue::remove(ObjectId id, uint32_t depth, const Need& need) {
  Shape& shape = shape_of(need);
  auto bucket = shape.buckets_.find(depth);
  if (bucket == shape.buckets_.end()) return;
  size_t gone =
      std::erase_if(bucket->second, [&](const Shape::Entry& entry) { return entry.id == id; });
  if (bucket->second.empty()) shape.buckets_.erase(bucket);
  shape.size_ -= gone;
  size_ -= gone;
  shape.note_removal();
}

std::vector<TaskQueue::Shape*> TaskQueue::shapes() {
  // A program uses a handful; one that makes up shapes as it goes should not pay for the old ones.
  if (shapes_.size() > 16) shapes_.remove_if([](const Shape& shape) { return shape.empty(); });
  std::vector<Shape*> result;
  for (auto& shape : shapes_) {
    if (!shape.empty()) result.push_back(&shape);
  }
  std::sort(result.begin(), result.end(), [](const Shape* a, const Shape* b) {
    const auto& [depth_a, entries_a] = *a->buckets_.begin();
    const auto& [depth_b, entries_b] = *b->buckets_.begin();
    if (depth_a != depth_b) return depth_a > depth_b;
    return entries_a.front().order < entries_b.front().order;
  });
  return result;
}

bool compete(const Resources& a, const Resources& b) {
  if ((a.cpus > 0 && b.cpus > 0) || (a.gpus > 0 && b.gpus > 0) || (a.memory > 0 && b.memory > 0))
    return true;
  return std::any_of(a.custom.begin(), a.custom.end(), [&](const auto& entry) {
    return entry.second > 0 && amount_of(b.custom, entry.first) > 0;
  });
}

}  // namespace manta
