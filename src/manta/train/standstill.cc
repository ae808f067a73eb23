#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/io/collective_member_internal.h"
#include "manta/train/standstill_internal.h"

namespace manta::train {
namespace {

bool has_returned(const RankView& rank) {
  return rank.finished || rank.activity.kind == Wait::kReturned;
}

// It has taken more batches of the pass than the other, but begun fewer collectives. If the reader
// has no room for more rows until the other rank has taken its rows, this rank waits for the other.
bool is_ahead_in_data(const RankView& waits, const RankView& other) {
  if (other.activity.kind != Wait::kCollective ||
      waits.activity.collectives > other.activity.number) {
    return false;
  }
  auto mine = waits.activity.taken.find(waits.activity.number);
  auto theirs = other.activity.taken.find(waits.activity.number);
  return mine != waits.activity.taken.end() && theirs != other.activity.taken.end() &&
         mine->second > theirs->second;
}

bool waits_for(const RankView& waits, const RankView& other, Evidence evidence) {
  int64_t number = waits.activity.number;
  switch (waits.activity.kind) {
    case Wait::kCollective:
      return other.activity.collectives <= number;
    case Wait::kRows:
      if (other.finished) return false;  // the reader does not wait for it
      return other.activity.passes <= number ||
             (evidence == Evidence::kLikely && is_ahead_in_data(waits, other));
    case Wait::kReport:
    case Wait::kReturned:
      return other.reports <= number;
    case Wait::kNone:
      break;
  }
  return false;
}

// Computes for each rank whether its wait may still end: first ranks that wait for no rank, then
// ranks that wait only for these, and so on. Ranks that wait for each other are never reached.
class Outlook {
 public:
  Outlook(const std::vector<RankView>& ranks, Evidence evidence)
      : ranks_(ranks), evidence_(evidence), good_(ranks.size(), false) {
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        if (good_[rank] || !(ranks[rank].finished || hopeless(rank).empty())) continue;
        good_[rank] = true;
        changed = true;
      }
    }
  }

  bool is_good(size_t rank) const { return good_[rank]; }

  // The ranks that will never do what this rank waits for.
  std::vector<int> hopeless(size_t rank) const {
    std::vector<int> found;
    for (size_t other = 0; other < ranks_.size(); ++other) {
      if (other == rank || !waits_for(ranks_[rank], ranks_[other], evidence_)) continue;
      // A rank that has returned begins nothing any more. But when it ends, the reader no longer
      // waits for it.
      bool never = has_returned(ranks_[other]) && ranks_[rank].activity.kind != Wait::kRows;
      if (never || !good_[other]) found.push_back(static_cast<int>(other));
    }
    return found;
  }

 private:
  const std::vector<RankView>& ranks_;
  const Evidence evidence_;
  std::vector<bool> good_;
};

std::string what_it_does(int rank, const std::vector<RankView>& ranks) {
  const RankView& view = ranks[static_cast<size_t>(rank)];
  const Activity& activity = view.activity;
  std::string text = str("rank ", rank);
  if (has_returned(view)) return text + " has returned from the loop";
  if (activity.kind != Wait::kReport) return str(text, " waits ", activity.what);
  std::vector<int> missing;
  for (size_t other = 0; other < ranks.size(); ++other) {
    if (waits_for(view, ranks[other], Evidence::kCertain))
      missing.push_back(static_cast<int>(other));
  }
  return str(text, " waits ", activity.what, ", which ", name_ranks(missing),
             missing.size() == 1 ? " has" : " have", " not made");
}

std::string explain(size_t rank, const std::vector<int>& hopeless,
                    const std::vector<RankView>& ranks) {
  const Activity& activity = ranks[rank].activity;
  bool one = hopeless.size() == 1;
  std::string text = str("it waits ", activity.what);
  if (activity.kind == Wait::kCollective) {
    text += str(" that ", name_ranks(hopeless), " never ", one ? "joins" : "join");
  } else if (activity.kind == Wait::kReport) {
    text += str(", which ", name_ranks(hopeless), " never ", one ? "makes" : "make");
  } else if (is_ahead_in_data(ranks[rank], ranks[static_cast<size_t>(hopeless[0])])) {
    text += str(", of which ", name_ranks(hopeless), one ? " has" : " have", " taken fewer");
  } else {
    text += str(", which ", name_ranks(hopeless), " never ", one ? "asks" : "ask", " for");
  }
  for (size_t i = 0; i < hopeless.size(); ++i) {
    text += (i == 0 ? ": " : ", ") + what_it_does(hopeless[i], ranks);
  }
  return text + "; every rank must take the same steps";
}

}  // namespace

std::optional<Standstill> find_standstill(const std::vector<RankView>& ranks, Evidence evidence) {
  Outlook outlook(ranks, evidence);
  // A collective shows best where the ranks have diverged.
  for (auto kind : {Wait::kCollective, Wait::kRows, Wait::kReport}) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (outlook.is_good(rank) || ranks[rank].finished || ranks[rank].activity.kind != kind) {
        continue;
      }
      return Standstill{static_cast<int>(rank), explain(rank, outlook.hopeless(rank), ranks)};
    }
  }
  return std::nullopt;
}

}  // namespace manta::train
