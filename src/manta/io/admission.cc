#include <algorithm>

#include "manta/io/admission_internal.h"

namespace manta {

bool Admission::has_place(const std::string& source) const {
  auto found = admitted_.find(source);
  return strangers_ < limits_.max_strangers &&
         (found == admitted_.end() || found->second < limits_.max_per_source);
}

void Admission::admit(const std::string& source) {
  ++strangers_;
  ++admitted_[source];
}

Admission::Verdict Admission::arrive(Id id, const std::string& source, Clock::time_point now) {
  std::erase_if(penalised_, [&](const auto& each) { return each.second <= now; });
  bool first = std::none_of(waiting_.begin(), waiting_.end(),
                            [&](const Waiting& each) { return each.source == source; });
  if (first && has_place(source)) {
    admit(source);
    return Verdict::kAdmit;
  }
  if (penalised_.contains(source)) return Verdict::kRefuse;
  waiting_.push_back({id, source, now});
  return Verdict::kWait;
}

void Admission::leave(const std::string& source) {
  --strangers_;
  auto found = admitted_.find(source);
  if (--found->second == 0) admitted_.erase(found);
}

std::optional<Admission::Id> Admission::next() {
  auto found = std::find_if(waiting_.begin(), waiting_.end(),
                            [&](const Waiting& each) { return has_place(each.source); });
  if (found == waiting_.end()) return std::nullopt;
  Id id = found->id;
  admit(found->source);
  waiting_.erase(found);
  return id;
}

std::optional<Clock::time_point> Admission::shed_at() const {
  if (waiting_.empty() || waiting_.size() < limits_.max_waiting) return std::nullopt;
  return waiting_.front().since + limits_.patience;
}

std::vector<Admission::Id> Admission::shed(Clock::time_point now) {
  auto at = shed_at();
  if (!at || now < *at) return {};
  std::map<std::string, size_t> counts;
  for (const auto& each : waiting_) ++counts[each.source];
  const std::string source =
      std::max_element(counts.begin(), counts.end(), [](const auto& left, const auto& right) {
        return left.second < right.second;
      })->first;
  penalised_[source] = now + limits_.penalty;
  std::vector<Id> shed;
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (each.source == source) shed.push_back(each.id);
    return each.source == source;
  });
  return shed;
}

}  // namespace manta
