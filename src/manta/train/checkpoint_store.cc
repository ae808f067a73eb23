#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/metric_internal.h"
#include "manta/train/staging_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "checkpoint_";
constexpr const char* kPartial = ".partial";

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename());
  if (error)
    throw Error(ErrorKind::kIo, str("reading the folder '", folder, "': ", error.message()));
  return names;
}

void rename_or_throw(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw_file_errno(str("renaming '", from, "' to '", to, "'"));
}

// A good checkpoint must not be passed over because of a temporary failure to read it.
void throw_unless_damaged(const Error& error, const std::string& checkpoint) {
  if (is_damage(error)) return;
  throw Error(error.kind(), str("whether '", checkpoint, "' is damaged cannot be told: ",
                                error.what(), "; try again, or remove that folder to do without"));
}

std::string writer_name(int rank) { return rank < 0 ? "the driver" : str("rank ", rank); }

void check_names(const std::map<int, std::vector<CheckpointFile>>& files_by_rank, int64_t index) {
  std::map<std::string, int> writers;
  for (const auto& [rank, files] : files_by_rank) {
    for (const CheckpointFile& file : files) {
      check_file_name(file.name);
      auto [known, fresh] = writers.emplace(file.name, rank);
      if (fresh) continue;
      throw Error(
          ErrorKind::kInvalidArgument,
          str(writer_name(known->second), " and ", writer_name(rank), " both wrote a file '",
              file.name, "' into the checkpoint of report ", index,
              "; let only rank 0 write it, or give it a name with the rank in it, such as '",
              file.name, ".rank-", rank, "'"));
    }
  }
  // A file of one rank cannot be a folder of another rank.
  for (const auto& [name, rank] : writers) {
    auto inside = writers.lower_bound(name + "/");
    if (inside == writers.end() || !inside->first.starts_with(name + "/")) continue;
    throw Error(
        ErrorKind::kInvalidArgument,
        str(writer_name(rank), " wrote a file '", name, "' and ", writer_name(inside->second),
            " a file '", inside->first, "' into the checkpoint of report ", index, ", where '",
            name, "' cannot be a file and a folder; give one of them another name"));
  }
}

}  // namespace

std::string checkpoint_name(int64_t index) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%06lld", static_cast<long long>(index));
  return str(kPrefix, digits);
}

std::optional<int64_t> checkpoint_index(const std::string& name) {
  std::string prefix = kPrefix;
  if (name.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  std::string digits = name.substr(prefix.size());
  if (digits.size() < 6 || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  int64_t index = std::stoll(digits);
  return name == checkpoint_name(index) ? std::optional(index) : std::nullopt;
}

bool is_partial_checkpoint(const std::string& name) {
  return name.starts_with(kPrefix) && name.ends_with(kPartial);
}

void check_checkpoint_config(const CheckpointConfig& config) {
  if (config.num_to_keep < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("checkpoint_config.num_to_keep must be positive, or 0 to keep all (was ",
                    config.num_to_keep, ")"));
  }
  if (config.max_in_flight < 1 || config.max_in_flight > kMostInFlight) {
    throw Error(ErrorKind::kInvalidArgument,
                str("checkpoint_config.max_in_flight must be from 1 to ", kMostInFlight, " (was ",
                    config.max_in_flight, ")"));
  }
  if (config.checkpoint_frequency < 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("checkpoint_config.checkpoint_frequency must be a number of rounds, or 0 for "
                    "none on the way (was ",
                    config.checkpoint_frequency, ")"));
  }
  const std::string& order = config.checkpoint_score_order;
  if (order != "max" && order != "min") {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("checkpoint_config.checkpoint_score_order must be 'max' or 'min' (was '", order, "')"));
  }
}

CheckpointStore::CheckpointStore(std::string run_folder, CheckpointConfig config,
                                 CheckpointCopies* copies)
    : run_folder_(std::move(run_folder)), config_(std::move(config)), copies_(copies) {
  for (const std::string& name : names_in(run_folder_)) {
    auto index = checkpoint_index(name);
    if (!index) continue;
    try {
      if (!has_folder(run_folder_, name))
        throw Error(ErrorKind::kCorrupt, str("'", path(name), "' is not a folder"));
      Checkpoint checkpoint = Checkpoint::open(path(name));
      if (checkpoint.manifest()["report"] != *index)
        throw Error(ErrorKind::kCorrupt, str("'", path(name), "' holds the checkpoint of report ",
                                             checkpoint.manifest()["report"].get<int64_t>()));
      auto points = score(checkpoint.metrics(), *index);
      stored_[*index] = {std::move(checkpoint), points};
    } catch (const Error& error) {
      throw_unless_damaged(error, path(name));
      log_warning(str(error.what(), "; it is not used"));
    }
  }
  if (!copies_) return;
  std::map<int64_t, Checkpoint> here;
  for (const auto& [index, one] : stored_) here.emplace(index, one.checkpoint);
  for (auto& [index, copy] : copies_->find_copies(here)) {
    auto points = score(copy.metrics(), index);
    stored_.try_emplace(index, Stored{std::move(copy), points, /*is_elsewhere=*/true});
  }
}

std::string CheckpointStore::staging_folder(int attempt, int64_t index, int rank) const {
  return train::staging_folder(run_folder_, attempt, index, rank);
}

// Nothing if the metric is not there or not a number; files keep a NaN as null.
std::optional<double> CheckpointStore::score(const Json& metrics, int64_t index) const {
  if (config_.checkpoint_score_attribute.empty()) return static_cast<double>(index);
  std::optional<double> value;
  for_each_metric(metrics, [&](const std::string& name, const Json& metric) {
    if (name == config_.checkpoint_score_attribute && !value) value = number_of(metric);
  });
  if (!value || std::isnan(*value)) return std::nullopt;
  return config_.checkpoint_score_order == "min" ? -*value : *value;
}

void CheckpointStore::prepare(const CheckpointReport& report,
                              const std::map<int, std::vector<CheckpointFile>>& files_by_rank) {
  std::string partial = path(checkpoint_name(report.index) + kPartial);
  std::string staging = path(str(kStaging, "/attempt-", report.attempt, "/report-", report.index));
  std::error_code ignored;
  try {
    check_names(files_by_rank, report.index);
    auto points = score(report.metrics, report.index);
    if (!points && !std::exchange(told_of_missing_score_, true)) {
      log_warning(str("report ", report.index, " came with a checkpoint, but its metrics ",
                      short_text(report.metrics), " have no number '",
                      config_.checkpoint_score_attribute,
                      "', which CheckpointConfig::checkpoint_score_attribute names; such "
                      "checkpoints rank last (this is said once)"));
    }
    Json manifest = {{"report", report.index},        {"attempt", report.attempt},
                     {"time", seconds_since_epoch()}, {"world_size", report.world_size},
                     {"files", Json::array()},        {"metrics", report.metrics},
                     {"positions", report.positions}};
    fs::remove_all(partial, ignored);
    make_folder_anew(partial);  // its old content would become part of the checkpoint
    move_files(files_by_rank, report, partial, manifest);
    write_manifest(partial, std::move(manifest));
    prepared_ = {Checkpoint::open(partial), points};  // opened as by a run that goes on from it
  } catch (...) {
    fs::remove_all(partial, ignored);
    fs::remove_all(staging, ignored);
    throw;
  }
  fs::remove_all(staging, ignored);
  prepared_report_ = report.index;
}

void CheckpointStore::publish(const std::function<void()>& on_part) const {
  std::string name = checkpoint_name(prepared_report_);
  std::string partial = path(name + kPartial);
  try {
    if (config_.fsync) sync_tree_to_disk(partial, on_part);
    discard(name);
    rename_or_throw(partial, path(name));
    if (config_.fsync) sync_to_disk(run_folder_);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(partial, ignored);
    throw;
  }
}

Checkpoint CheckpointStore::adopt() {
  std::string name = checkpoint_name(prepared_report_);
  prepared_.checkpoint.path_ = path(name);
  stored_[prepared_report_] = std::exchange(prepared_, {});
  if (copies_) copies_->committed(prepared_report_, path(name));
  return stored_[prepared_report_].checkpoint;
}

Checkpoint CheckpointStore::commit(
    const CheckpointReport& report,
    const std::map<int, std::vector<CheckpointFile>>& files_by_rank) {
  prepare(report, files_by_rank);
  publish();
  return adopt();
}

void CheckpointStore::move_files(const std::map<int, std::vector<CheckpointFile>>& files_by_rank,
                                 const CheckpointReport& report, const std::string& partial,
                                 Json& manifest) {
  for (const auto& [rank, files] : files_by_rank) {
    std::string from = staging_folder(report.attempt, report.index, rank);
    for (const CheckpointFile& file : files) {
      std::string source = from + "/" + file.name;
      std::string target = partial + "/" + file.name;
      struct stat info {};
      if (::lstat(source.c_str(), &info) != 0)
        throw_file_errno(
            str("looking for '", source, "', which ", writer_name(rank), " has written"));
      if (!S_ISREG(info.st_mode))
        throw Error(ErrorKind::kCorrupt, str("'", source, "', which ", writer_name(rank),
                                             " has written, is not a file any more"));
      if (static_cast<uint64_t>(info.st_size) != file.size)
        throw Error(ErrorKind::kCorrupt, str("'", source, "' has ", info.st_size, " bytes, but ",
                                             writer_name(rank), " has written ", file.size));
      make_folders(fs::path(target).parent_path());
      rename_or_throw(source, target);
      manifest["files"].push_back(
          {{"name", file.name}, {"size", file.size}, {"checksum", file.checksum}});
    }
  }
}

// From the worst to the best; among equals, the later one is better. Checkpoints without a score
// are worst: an empty optional is less than any number.
std::vector<int64_t> CheckpointStore::best_last() const {
  std::vector<int64_t> order;
  for (const auto& [index, one] : stored_) order.push_back(index);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return stored_.at(a).score < stored_.at(b).score; });
  return order;
}

void CheckpointStore::keep_only_the_best() {
  if (config_.num_to_keep == 0 || stored_.empty()) return;
  std::vector<int64_t> order = best_last();
  int64_t latest = stored_.rbegin()->first;
  auto surplus = static_cast<int64_t>(order.size()) - config_.num_to_keep;
  for (int64_t i = 0; i < surplus; ++i) {
    int64_t index = order[static_cast<size_t>(i)];
    if (index == latest) continue;
    stored_.erase(index);
    if (copies_) copies_->discarded(index);
    try {
      discard(checkpoint_name(index));
    } catch (const Error& error) {
      log_warning(str("a checkpoint that is not needed any more stays: ", error.what()));
    }
  }
}

// The rename comes first: a half-removed checkpoint must not look like one.
void CheckpointStore::discard(const std::string& name) const {
  std::string doomed = path(name + ".removed" + kPartial);
  std::error_code error;
  fs::remove_all(doomed, error);
  if (::rename(path(name).c_str(), doomed.c_str()) != 0) {
    if (errno == ENOENT) return;
    throw_file_errno(str("renaming '", path(name), "' to '", doomed, "'"));
  }
  fs::remove_all(doomed, error);
  if (error) log_warning(str("'", doomed, "' could not be removed: ", error.message()));
}

std::optional<Checkpoint> CheckpointStore::find_latest_valid(int64_t at_most) {
  for (;;) {
    auto after = stored_.upper_bound(at_most);
    if (after == stored_.begin()) return std::nullopt;
    auto latest = std::prev(after);
    try {
      if (latest->second.is_elsewhere) fetch(latest->first);
      return Checkpoint::from_directory(latest->second.checkpoint.path());
    } catch (const Error& error) {
      throw_unless_damaged(error, latest->second.checkpoint.uri());
      log_warning(
          str(error.what(), "; ",
              latest == stored_.begin() ? "there is none before it" : "the one before it is used"));
      stored_.erase(latest);
    }
  }
}

// Fetches a copy to the run folder, where it appears with all its files at once.
void CheckpointStore::fetch(int64_t index) {
  std::string name = checkpoint_name(index);
  std::string partial = path(name + kPartial);
  std::error_code ignored;
  fs::remove_all(partial, ignored);
  make_folder_anew(partial);
  try {
    copies_->fetch(index, partial);
    discard(name);
    rename_or_throw(partial, path(name));
  } catch (...) {
    fs::remove_all(partial, ignored);
    throw;
  }
  Stored& one = stored_.at(index);
  one.checkpoint = Checkpoint::open(path(name));
  one.is_elsewhere = false;
}

std::optional<Checkpoint> CheckpointStore::find(int64_t index) const {
  auto one = stored_.find(index);
  if (one == stored_.end()) return std::nullopt;
  if (one->second.is_elsewhere) return one->second.checkpoint;
  return Checkpoint::open(one->second.checkpoint.path());
}

std::vector<std::pair<Checkpoint, Json>> CheckpointStore::best_checkpoints() const {
  std::vector<std::pair<Checkpoint, Json>> result;
  for (int64_t index : best_last()) {
    const Checkpoint& checkpoint = stored_.at(index).checkpoint;
    result.emplace_back(checkpoint, checkpoint.metrics());
  }
  return result;
}

void CheckpointStore::clean_up() {
  for (const std::string& name : names_in(run_folder_)) {
    if (name != kStaging && !is_partial_checkpoint(name)) continue;
    std::error_code error;
    fs::remove_all(path(name), error);
    errno = error.value();
    if (error) throw_file_errno(str("removing '", path(name), "'"));
  }
}

}  // namespace manta::train
