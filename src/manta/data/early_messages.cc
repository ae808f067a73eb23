#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/early_messages_internal.h"

namespace manta::data {
namespace {

size_t text_bytes_of(const JoinPass& message) { return message.open.dataset.size(); }
size_t text_bytes_of(const PassFailed& message) { return message.message.size(); }
template <class Message>
size_t text_bytes_of(const Message&) {
  return 0;
}

size_t kept_bytes(const EarlyMessages::Early& early) {
  return sizeof(early) +
         std::visit([](const auto& each) { return text_bytes_of(each); }, early.message);
}

}  // namespace

void EarlyMessages::keep(uint64_t pass, int node, Message message) {
  MANTA_CHECK(!is_over(pass), "a message about a pass that is over is kept");
  Early early{node, std::move(message)};
  size_t bytes = kept_bytes(early);
  if (bytes > most_bytes_ - bytes_)
    throw Error(ErrorKind::kCorrupt, "it says too much about data that nobody here reads");
  bytes_ += bytes;
  kept_[pass].push_back(std::move(early));
}

std::vector<EarlyMessages::Early> EarlyMessages::take(uint64_t pass) {
  auto found = kept_.extract(pass);
  if (found.empty()) return {};
  for (const Early& each : found.mapped()) bytes_ -= kept_bytes(each);
  return std::move(found.mapped());
}

std::optional<PassFailed> EarlyMessages::failure(uint64_t pass) const {
  auto found = kept_.find(pass);
  if (found == kept_.end()) return std::nullopt;
  for (const Early& each : found->second) {
    if (auto* failed = std::get_if<PassFailed>(&each.message)) return *failed;
  }
  return std::nullopt;
}

void EarlyMessages::end(uint64_t pass) {
  take(pass);
  if (pass >= all_over_) over_.insert(pass);
  while (over_.erase(all_over_) > 0) ++all_over_;
}

}  // namespace manta::data
