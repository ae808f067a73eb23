#include <algorithm>
#include <charconv>

#include "manta/base/error_internal.h"
#include "manta/train/key_value_store_internal.h"

namespace manta::train {

std::vector<KeyValueStore::Answer> KeyValueStore::ask(int rank, StoreRequest request) {
  std::vector<Answer> answers;
  bool changes = request.kind == StoreRequest::kSet || request.kind == StoreRequest::kAdd ||
                 request.kind == StoreRequest::kCompareSet;
  auto reply = answer(request);
  if (reply) {
    answers.push_back({rank, std::move(*reply)});
  } else {
    waiting_.push_back({rank, std::move(request)});
  }
  if (!changes) return answers;
  std::erase_if(waiting_, [&](const Waiting& each) {
    auto late = answer(each.request);
    if (late) answers.push_back({each.rank, std::move(*late)});
    return late.has_value();
  });
  return answers;
}

int64_t KeyValueStore::add(const std::string& key, int64_t amount) {
  auto& value = values_[key];
  int64_t number = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  bool is_number = value.empty() || (error == std::errc() && end == value.data() + value.size());
  int64_t sum = 0;
  if (!is_number || __builtin_add_overflow(number, amount, &sum)) {
    throw Error(ErrorKind::kCorrupt,
                str("it adds ", amount, " to the key '", key.substr(0, 100),
                    "' of the group's store, whose value is '", value.substr(0, 100), "'"));
  }
  value = std::to_string(sum);
  return sum;
}

std::optional<StoreReply> KeyValueStore::answer(const StoreRequest& request) {
  StoreReply reply;
  reply.request = request.request;
  auto all_there = [&] {
    return std::all_of(request.keys.begin(), request.keys.end(),
                       [&](const auto& key) { return values_.contains(key); });
  };
  const std::string key = request.keys.empty() ? "" : request.keys.front();
  switch (request.kind) {
    case StoreRequest::kSet:
      values_[key] = request.value;
      return reply;
    case StoreRequest::kGet:  // waits for all of the keys, gives the first one's value
      if (!all_there()) return std::nullopt;
      reply.value = request.keys.empty() ? "" : values_[key];
      return reply;
    case StoreRequest::kAdd:
      reply.number = add(key, request.amount);
      return reply;
    case StoreRequest::kCompareSet: {
      auto found = values_.find(key);
      if (found == values_.end()) {
        if (request.expected.empty()) values_[key] = request.value;
        reply.value = request.expected.empty() ? request.value : request.expected;
      } else {
        if (found->second == request.expected) found->second = request.value;
        reply.value = found->second;
      }
      return reply;
    }
    case StoreRequest::kCheck:
      reply.found = all_there();
      return reply;
    case StoreRequest::kDelete:
      reply.found = values_.erase(key) > 0;
      return reply;
    case StoreRequest::kCount:
      reply.number = static_cast<int64_t>(values_.size());
      return reply;
    case StoreRequest::kMissing:
      break;
  }
  throw Error(ErrorKind::kCorrupt, str("it asks the group's store for operation ",
                                       static_cast<int>(request.kind), ", which it does not have"));
}

}  // namespace manta::train
