#include <arrow/api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/processors_internal.h"
#include "manta/data/row_bytes_internal.h"
#include "manta/data/stop_check_internal.h"
#include "manta/data/stream_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/passes_internal.h"

namespace manta {
namespace preprocess {
namespace {

using Tallies = std::vector<std::unique_ptr<Tally>>;

// The threads that read the rows count them, each for itself.
class Pass {
 public:
  Pass(const Dataset& dataset, const std::vector<PassMember>& members, int threads)
      : members_(members) {
    data::Stream stream(dataset.plan(), {},
                        {.threads = threads,
                         .progress = "fit of " + members.at(0).learner->to_string(),
                         .consume = [this](const auto& batch) { count(batch, own()); }});
    stream.next();
  }

  /// Empty if there were no rows.
  Tallies result() {
    Tallies all;
    for (auto& [thread, one] : tallies_) {
      if (all.empty()) {
        all = std::move(one);
        continue;
      }
      for (size_t i = 0; i < all.size(); ++i) all[i]->merge(*one[i]);
    }
    return all;
  }

 private:
  Tallies& own() {
    std::lock_guard lock(mutex_);
    Tallies& own = tallies_[std::this_thread::get_id()];
    if (own.empty()) {
      for (const auto& member : members_) own.push_back(member.learner->start_tally());
    }
    return own;
  }

  // Counts a part of the rows at a time, if the preprocessors before a member make wide vectors of
  // them.
  void count(const data::BatchPtr& batch, Tallies& own) const {
    require_wanted(data::StopCheck::stopping());
    int64_t part = rows_at_a_time(batch->schema());
    if (part >= batch->num_rows()) return count_part(batch, own);
    for (int64_t row = 0; row < batch->num_rows(); row += part) {
      count_part(batch->Slice(row, part), own);
    }
  }

  int64_t rows_at_a_time(const std::shared_ptr<arrow::Schema>& schema) const {
    int64_t rows = INT64_MAX;
    for (const auto& member : members_) {
      if (member.before.empty()) continue;
      auto none = check(arrow::RecordBatch::MakeEmpty(schema), "making a batch without rows");
      for (const auto* part : member.before) {
        none = internal::transform_rows(*part, none);
        rows = std::min(rows, data::rows_at_a_time(*none->schema(), *schema));
      }
    }
    return rows;
  }

  // Members whose rows go through the same preprocessors see the same batch.
  void count_part(const data::BatchPtr& batch, Tallies& own) const {
    const std::vector<const Preprocessor*>* done = nullptr;
    data::BatchPtr rows;
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto& before = members_[i].before;
      if (!done || *done != before) {
        rows = batch;
        for (const auto* part : before) rows = internal::transform_rows(*part, rows);
        done = &before;
      }
      own[i]->add(rows);
    }
  }

  const std::vector<PassMember>& members_;
  std::mutex mutex_;  // guards what follows; each thread changes its own tallies without it
  std::map<std::thread::id, Tallies> tallies_;
};

void add_names(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const auto& name : more) {
    if (!data::contains(names, name)) names.push_back(name);
  }
}

// Includes columns that only an earlier part makes: the caller takes those that exist.
std::vector<std::string> columns_of(const PassMember& member) {
  auto names = member.learner->input_columns();
  for (const auto* part : member.before) add_names(names, part->input_columns());
  return names;
}

void check_member(const PassMember& member, const std::shared_ptr<arrow::Schema>& schema) {
  auto rows = check(arrow::RecordBatch::MakeEmpty(schema), "making a batch without rows");
  for (const auto* part : member.before) rows = internal::transform_rows(*part, rows);
  member.learner->check_columns(*rows->schema());
}

}  // namespace

void require_wanted(bool stopping) {
  if (stopping) throw Error(ErrorKind::kCancelled, "the fit was stopped");
}

std::vector<std::unique_ptr<Tally>> run_pass(const Dataset& dataset,
                                             const std::vector<PassMember>& members, int threads) {
  Dataset rows = dataset;
  // After map_batches the columns are unknown; then each batch is checked.
  if (auto schema = data::schema_of(*dataset.plan())) {
    std::vector<std::string> needed, there;
    for (const auto& member : members) {
      check_member(member, schema);
      add_names(needed, columns_of(member));
    }
    for (const auto& name : needed) {
      if (schema->GetFieldIndex(name) >= 0) there.push_back(name);
    }
    rows = dataset.select_columns(there);
  }
  auto tallies = Pass(rows, members, threads > 0 ? threads : data::all_processors()).result();
  if (tallies.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                str(members.at(0).learner->name(),
                    " cannot learn from a data set without rows; check its files and filters"));
  }
  return tallies;
}

}  // namespace preprocess

namespace {

// A part of a Chain, or of a Chain inside it, that is not itself a Chain.
struct Leaf {
  Preprocessor* part = nullptr;
  std::vector<size_t> before;  // the leaves that change columns that it reads
  bool done = false;           // nothing to learn, or learned
};

void add_leaves(Preprocessor& preprocessor, std::vector<Leaf>& leaves) {
  if (auto* chain = dynamic_cast<Chain*>(&preprocessor)) {
    for (size_t i = 0; i < chain->size(); ++i) add_leaves(chain->part(i), leaves);
    return;
  }
  auto* learner = dynamic_cast<LearningPreprocessor*>(&preprocessor);
  bool learns = learner ? learner->has_to_learn()
                        : dynamic_cast<StatelessPreprocessor*>(&preprocessor) == nullptr;
  leaves.push_back({&preprocessor, {}, !learns});
}

bool meet(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  for (const auto& name : some) {
    if (data::contains(others, name)) return true;
  }
  return false;
}

// Goes back from the columns that leaf `index` reads: which leaves made them, and from which
// columns.
std::vector<size_t> find_before(const std::vector<Leaf>& leaves, size_t index) {
  std::vector<size_t> before;
  auto needed = leaves[index].part->input_columns();
  for (size_t i = index; i-- > 0;) {
    const Preprocessor& part = *leaves[i].part;
    if (!meet(part.output_columns(), needed) && !meet(part.removed_columns(), needed)) continue;
    before.insert(before.begin(), i);
    for (auto& name : part.input_columns()) needed.push_back(std::move(name));
  }
  return before;
}

std::vector<const Preprocessor*> parts_of(const std::vector<Leaf>& leaves,
                                          const std::vector<size_t>& places) {
  std::vector<const Preprocessor*> parts;
  for (size_t place : places) parts.push_back(leaves[place].part);
  return parts;
}

}  // namespace

int internal::fit_preprocessor(Preprocessor& preprocessor, const Dataset& dataset, int threads) {
  std::vector<Leaf> leaves;
  add_leaves(preprocessor, leaves);
  for (size_t i = 0; i < leaves.size(); ++i) {
    leaves[i].before = find_before(leaves, i);
    if (auto* learner = dynamic_cast<LearningPreprocessor*>(leaves[i].part)) {
      learner->start_learning();
    }
  }
  int passes = 0;
  while (true) {
    std::vector<preprocess::PassMember> members;
    std::vector<Leaf*> counted, alone;
    for (auto& leaf : leaves) {
      bool ready = std::all_of(leaf.before.begin(), leaf.before.end(),
                               [&](size_t place) { return leaves[place].done; });
      if (leaf.done || !ready) continue;
      if (auto* learner = dynamic_cast<LearningPreprocessor*>(leaf.part)) {
        members.push_back({learner, parts_of(leaves, leaf.before)});
        counted.push_back(&leaf);
      } else {
        alone.push_back(&leaf);
      }
    }
    if (members.empty() && alone.empty()) return passes;
    if (!members.empty()) {
      auto tallies = preprocess::run_pass(dataset, members, threads);
      ++passes;
      for (size_t i = 0; i < members.size(); ++i) {
        counted[i]->done = members[i].learner->finish_tally(*tallies[i]);
      }
    }
    for (Leaf* leaf : alone) {  // a user's class, which reads the rows itself
      Dataset rows = dataset;
      for (const auto* part : parts_of(leaves, leaf->before)) rows = part->transform(rows);
      leaf->part->fit(rows);
      leaf->done = true;
    }
  }
}

void LearningPreprocessor::fit(const Dataset& dataset) {
  internal::fit_preprocessor(*this, dataset);
}

}  // namespace manta
