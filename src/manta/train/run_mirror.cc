#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <utility>

#include "manta/base/batch_work_internal.h"
#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/remote_checkpoint_internal.h"
#include "manta/train/run_files_internal.h"
#include "manta/train/run_mirror_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

// Used instead of a version: some of the checkpoint's files may be there.
constexpr uint64_t kParts = UINT64_MAX;
constexpr const char* kMirroredJournal = "journal.jsonl";
constexpr std::chrono::seconds kJournalInterval{5}, kFilesInterval{15};
// A file that changes all the time is stored once in kFileAgain; larger files less often.
constexpr std::chrono::seconds kFileAgain{60};
constexpr uint64_t kLargeFile = uint64_t{16} << 20;
constexpr std::chrono::milliseconds kFirstRetry{500}, kLastRetry{10'000}, kLastRetryAtEnd{1000};
// A part of the journal with this many bytes is not written again.
constexpr size_t kFullPart = size_t{256} << 10;
// At most this many bytes at a time; a line has at most half as many.
constexpr size_t kMostOfPart = 2 * kLongestEvent;
// How often `finish` says what it waits for.
constexpr std::chrono::seconds kSayEvery{5};

// Whole lines from an offset, at most kMostOfPart bytes.
std::string lines_from(const std::string& folder, uint64_t begin) {
  UniqueFd fd = open_file(folder, kMirroredJournal, O_RDONLY);
  std::string text(kMostOfPart, '\0');
  size_t done = 0;
  while (done < text.size()) {
    ssize_t got =
        ::pread(fd.get(), text.data() + done, text.size() - done, static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(str("reading '", folder, "/", kMirroredJournal, "'"));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

uint64_t size_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

// Up to the end of its last whole line: another thread may be about to append one.
uint64_t whole_lines_of(const std::string& path) {
  uint64_t end = size_of(path);
  if (end == 0) return 0;
  fs::path file = path;
  UniqueFd fd = open_file(file.parent_path(), file.filename(), O_RDONLY);
  std::string piece;
  while (end > 0) {
    piece.resize(std::min<uint64_t>(end, uint64_t{1} << 16));
    uint64_t begin = end - piece.size();
    ssize_t got = ::pread(fd.get(), piece.data(), piece.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(piece.size())) throw_errno(str("reading '", path, "'"));
    size_t at = piece.rfind('\n');
    if (at != std::string::npos) return begin + at + 1;
    end = begin;
  }
  return 0;
}

// Makes a hard link for each file, so that files that are removed meanwhile stay; or a copy if the
// file system has no hard links.
void link_files(const std::string& from, const std::string& to) try {
  std::error_code ignored, error;
  fs::remove_all(to, ignored);
  make_folders(to);
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    std::string target = to + "/" + fs::path(entry.path()).lexically_relative(from).string();
    if (entry.is_directory()) {
      make_folders(target);
    } else if (fs::create_hard_link(entry.path(), target, error); error) {
      fs::copy_file(entry.path(), target);
    }
  }
} catch (const fs::filesystem_error& error) {
  throw Error(ErrorKind::kIo, str("keeping '", from, "' to be stored: ", error.what()));
}

std::string listed(const std::map<std::string, std::string>& reasons) {
  std::string text;
  for (const auto& [name, why] : reasons)
    text += str(text.empty() ? "" : "; ", "'", name, "': ", why);
  return text;
}

// "checkpoint_000007", or "trial_00003/checkpoint_000007"
std::string name_of_copy(const std::pair<std::string, int64_t>& key) {
  return str(key.first, key.first.empty() ? "" : "/", checkpoint_name(key.second));
}

}  // namespace

class RunMirror::CopiesOfTrial final : public CheckpointCopies {
 public:
  CopiesOfTrial(RunMirror& mirror, std::string trial, bool is_new)
      : mirror_(mirror), trial_(std::move(trial)), is_new_(is_new) {}

  std::map<int64_t, Checkpoint> find_copies(const std::map<int64_t, Checkpoint>& here) override {
    return is_new_ ? std::map<int64_t, Checkpoint>() : mirror_.find_copies(trial_, here);
  }
  void fetch(int64_t index, const std::string& folder) override {
    download_checkpoint(mirror_.address_of(trial_).child(checkpoint_name(index)), folder);
  }
  void committed(int64_t index, const std::string& folder) override {
    mirror_.committed({trial_, index}, folder);
  }
  void discarded(int64_t index) override { mirror_.discarded(Key{trial_, index}); }

 private:
  RunMirror& mirror_;
  const std::string trial_;
  const bool is_new_;
};

struct RunMirror::Next {
  enum Kind { kParams, kUpload, kRemove, kJournal, kFiles, kLastFiles, kEnd };
  Kind kind = kEnd;
  Key key = {};
  Copy copy = {};
};

RunMirror::RunMirror(RemoteRun remote, std::string folder, bool is_ahead,
                     std::function<void()> on_news)
    : remote_(std::move(remote)),
      folder_(std::move(folder)),
      on_news_(std::move(on_news)),
      journal_waits_(is_ahead),
      progress_(Clock::now()) {
  std::error_code ignored;
  fs::remove_all(folder_ + "/" + kUploads, ignored);  // of a driver that died
  remote_.put_params(read_text(folder_ + "/" + remote_.kind().document, kMostParamsBytes));
  if (!is_ahead) store_journal();
  thread_ = start_thread("the thread that stores a run", [this] { work(); });
}

RunMirror::~RunMirror() { stop(); }

void RunMirror::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void RunMirror::params_changed() {
  std::lock_guard lock(mutex_);
  params_changed_ = true;
  changed_.notify_all();
}

RemoteAddress RunMirror::address_of(const std::string& trial) const {
  return trial.empty() ? remote_.address() : remote_.address().child(trial);
}

std::unique_ptr<CheckpointCopies> RunMirror::copies_of(const std::string& trial, bool is_new) {
  return std::make_unique<CopiesOfTrial>(*this, trial, is_new);
}

void RunMirror::checkpoints_are_known() {
  std::lock_guard lock(mutex_);
  journal_waits_ = false;
  changed_.notify_all();
}

std::map<int64_t, Checkpoint> RunMirror::find_copies(const std::map<int64_t, Checkpoint>& here) {
  auto found = find_copies("", here);
  checkpoints_are_known();
  return found;
}

std::map<int64_t, Checkpoint> RunMirror::find_copies(const std::string& trial,
                                                     const std::map<int64_t, Checkpoint>& here) {
  std::set<int64_t> unfinished;
  auto found = RemoteRun::checkpoints(address_of(trial), &unfinished);
  std::map<int64_t, Copy> lacking;
  for (const auto& [index, checkpoint] : here) {
    auto copy = found.find(index);
    if (copy == found.end() || copy->second.manifest() != checkpoint.manifest())
      lacking[index] = linked({trial, index}, checkpoint.path());
  }
  std::lock_guard lock(mutex_);
  for (int64_t index : unfinished) copies_[{trial, index}] = {/*wanted=*/0, /*stored=*/1, "", 0};
  for (const auto& [index, copy] : found)
    copies_[{trial, index}] = {/*wanted=*/1, /*stored=*/1, "", 0};
  for (auto& [index, copy] : lacking) {
    Copy& known = copies_[{trial, index}];
    copy.stored = known.stored;
    known = std::move(copy);
  }
  changed_.notify_all();
  return found;
}

void RunMirror::fetch(int64_t index, const std::string& folder) {
  download_checkpoint(remote_.address().child(checkpoint_name(index)), folder);
}

// A copy to be uploaded; the journal from before the run was opened counts as later.
RunMirror::Copy RunMirror::linked(const Key& key, const std::string& folder) {
  uint64_t version = ++versions_;
  std::string links = str(folder_, "/", kUploads, "/", name_of_copy(key), "-", version);
  link_files(folder, links);
  return {version, /*stored=*/0, std::move(links), /*journal=*/0};
}

void RunMirror::committed(int64_t index, const std::string& folder) {
  committed(Key{"", index}, folder);
}

void RunMirror::discarded(int64_t index) { discarded(Key{"", index}); }

void RunMirror::committed(const Key& key, const std::string& folder) {
  Copy fresh = linked(key, folder);
  fresh.journal = whole_lines_of(folder_ + "/" + kMirroredJournal);
  std::lock_guard lock(mutex_);
  Copy& copy = copies_[key];
  if (!copy.folder.empty()) doomed_.push_back(copy.folder);
  fresh.stored = copy.stored;
  copy = std::move(fresh);
  changed_.notify_all();
}

void RunMirror::discarded(const Key& key) {
  std::lock_guard lock(mutex_);
  auto found = copies_.find(key);
  if (found == copies_.end()) return;
  found->second.wanted = 0;
  changed_.notify_all();
}

std::string RunMirror::superseded() const {
  std::lock_guard lock(mutex_);
  return superseded_;
}

void RunMirror::await_journal(Deadline deadline, const std::atomic<bool>& cancelled) {
  uint64_t size = whole_lines_of(folder_ + "/" + kMirroredJournal);
  std::unique_lock lock(mutex_);
  if (journal_stored_ < size) journal_due_ = true;
  changed_.notify_all();
  auto is_over = [&] {
    return journal_stored_ >= size || cancelled || stopping_ || !superseded_.empty();
  };
  changed_.wait_until(lock, deadline.at(), is_over);
  if (journal_stored_ >= size) return;
  if (!superseded_.empty()) throw Error(ErrorKind::kIo, superseded_);
  if (is_over()) throw Error(ErrorKind::kCancelled, "interrupted while the store was waited for");
  throw Error(
      ErrorKind::kIo,
      str("'", address(), "' does not have the end of the journal; the store has not taken ",
          "it in time (RunConfig::storage_timeout)", last_error_.empty() ? "" : ": ", last_error_));
}

void RunMirror::wake() {
  std::lock_guard lock(mutex_);
  changed_.notify_all();
}

Checkpoint RunMirror::stored(const Checkpoint& checkpoint, const std::string& trial) const {
  if (!checkpoint) return checkpoint;
  std::string name = checkpoint_name(checkpoint.manifest().at("report").get<int64_t>());
  return StoredCheckpoint::at(address_of(trial).child(name).text(), checkpoint.manifest());
}

void RunMirror::forget() {
  stop();
  try {
    std::vector<std::string> files;
    for (const auto& [name, sent] : sent_) files.push_back(name);
    remote_.forget(files);
  } catch (const Error& error) {
    log_warning(str("the ", remote_.kind().what,
                    " could not begin, and its name stays in use: ", error.what()));
  }
}

// Call it with the lock held.
std::optional<RunMirror::Next> RunMirror::next() {
  if (params_changed_) return Next{Next::kParams};
  if (journal_due_) return Next{Next::kJournal};
  std::map<std::string_view, int64_t> latest_stored;
  for (const auto& [key, copy] : copies_)
    if (copy.wanted != 0 && copy.wanted == copy.stored) latest_stored[key.first] = key.second;
  for (auto it = copies_.begin(); it != copies_.end();) {
    auto& [key, copy] = *it;
    auto latest = latest_stored.find(key.first);
    if (copy.wanted != 0) {
      ++it;
    } else if (copy.stored == 0) {
      if (!copy.folder.empty()) doomed_.push_back(copy.folder);
      it = copies_.erase(it);
    } else if (latest != latest_stored.end() && key.second < latest->second) {
      return Next{Next::kRemove, key, copy};
    } else {
      ++it;
    }
  }
  const std::pair<const Key, Copy>* first = nullptr;
  for (const auto& each : copies_) {
    if (each.second.wanted == 0 || each.second.wanted == each.second.stored) continue;
    if (!first || each.second.journal < first->second.journal) first = &each;
  }
  if (first) {
    const auto& [key, copy] = *first;
    // A run that goes on from the checkpoint knows the checkpoint's own report, from the manifest,
    // and no other.
    bool lacks_reports = copy.journal > journal_stored_ && journal_limit() > journal_stored_;
    return lacks_reports ? Next{Next::kJournal} : Next{Next::kUpload, key, copy};
  }
  if (all_stored_) return std::nullopt;
  if (ending_) return Next{files_tried_ && !journal_ended_ ? Next::kEnd : Next::kLastFiles};
  if (files_due_) return Next{Next::kFiles};
  return std::nullopt;
}

void RunMirror::work() {
  become_batch_work();
  auto pause = kFirstRetry;
  auto journal_looked_at = Clock::now();
  auto files_looked_at = journal_looked_at - kFilesInterval + kJournalInterval;
  std::unique_lock lock(mutex_);
  while (!stopping_ && superseded_.empty()) {
    if (!journal_due_ && Clock::now() - journal_looked_at >= kJournalInterval) {
      journal_looked_at = Clock::now();
      journal_due_ = size_of(folder_ + "/" + kMirroredJournal) > journal_stored_;
    }
    if (Clock::now() - files_looked_at >= kFilesInterval) {
      files_looked_at = Clock::now();
      files_due_ = true;
    }
    auto task = next();
    if (auto doomed = std::exchange(doomed_, {}); !doomed.empty()) {
      lock.unlock();
      std::error_code ignored;
      for (const std::string& folder : doomed) fs::remove_all(folder, ignored);
      lock.lock();
      continue;
    }
    if (!task) {
      changed_.wait_until(lock, journal_looked_at + kJournalInterval);
      continue;
    }
    lock.unlock();
    std::optional<Error> error;
    bool took_something = false;
    try {
      took_something = perform(*task);
    } catch (const Error& thrown) {
      error = thrown;
    } catch (const std::exception& thrown) {
      error.emplace(ErrorKind::kIo, thrown.what());
    }
    if (error) {
      failed(*error, pause);
      pause = std::min(2 * pause, kLastRetry);
    } else if (took_something) {
      made_progress();
      pause = kFirstRetry;
    }
    lock.lock();
  }
  lock.unlock();
  if (!superseded().empty()) on_news_();
}

bool RunMirror::perform(const Next& next) {
  switch (next.kind) {
    case Next::kParams: {
      {
        std::lock_guard lock(mutex_);
        params_changed_ = false;  // set again if it changes while it is read
      }
      try {
        remote_.put_params(read_text(folder_ + "/" + remote_.kind().document, kMostParamsBytes));
      } catch (...) {
        std::lock_guard lock(mutex_);
        params_changed_ = true;
        throw;
      }
      return true;
    }
    case Next::kUpload: {
      if (next.copy.stored != 0) remove_from_store(next.key);
      set_stored(next.key, kParts);
      remote_.put_checkpoint(name_of_copy(next.key), next.copy.folder, [this] { touch(); });
      set_stored(next.key, next.copy.wanted);
      std::lock_guard lock(mutex_);
      Copy& copy = copies_[next.key];
      if (copy.folder == next.copy.folder) copy.folder.clear();
      doomed_.push_back(next.copy.folder);
      journal_due_ = true;
      return true;
    }
    case Next::kRemove:
      remove_from_store(next.key);
      set_stored(next.key, 0);
      return true;
    case Next::kJournal:
      return store_journal();
    case Next::kFiles:
      return store_files(/*all=*/false);
    case Next::kLastFiles:
      return store_files(/*all=*/true);
    case Next::kEnd: {
      store_journal();
      std::lock_guard lock(mutex_);
      journal_ended_ = true;
      all_stored_ = file_failures_.empty();
      return true;
    }
  }
  return false;
}

void RunMirror::set_stored(const Key& key, uint64_t version) {
  std::lock_guard lock(mutex_);
  copies_[key].stored = version;
}

// A user who may write to a store may not always remove: then it stays.
void RunMirror::remove_from_store(const Key& key) {
  try {
    remote_.remove_checkpoint(name_of_copy(key));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    log_warning(str("a checkpoint that is not needed any more stays: ", error.what()));
  }
}

// Call it with the lock held.
uint64_t RunMirror::journal_limit() const {
  uint64_t limit = journal_waits_ ? 0 : UINT64_MAX;
  for (const auto& [key, copy] : copies_)
    if (copy.wanted != 0 && copy.wanted != copy.stored) limit = std::min(limit, copy.journal);
  return limit;
}

bool RunMirror::store_journal() {
  uint64_t before = journal_stored_;
  auto as_due = [&](const auto& write) {
    try {
      write();
    } catch (...) {
      std::lock_guard lock(mutex_);
      journal_due_ = true;
      throw;
    }
  };
  for (;;) {
    std::string lines = lines_from(folder_, part_begin_);
    {
      std::lock_guard lock(mutex_);
      journal_due_ = false;
      // The bytes below the limit end with a line: each line is one write.
      uint64_t limit = journal_limit();
      if (limit < part_begin_ + lines.size())
        lines.resize(limit > part_begin_ ? static_cast<size_t>(limit - part_begin_) : 0);
      if (part_begin_ + lines.size() <= journal_stored_) {
        if (limit != UINT64_MAX || journal_is_whole_) return journal_stored_ > before;
        lines.clear();
      }
    }
    if (lines.empty()) break;
    as_due([&] { remote_.put_journal(part_, lines); });
    std::lock_guard lock(mutex_);
    journal_stored_ = part_begin_ + lines.size();
    changed_.notify_all();
    if (lines.size() < kFullPart) continue;
    ++part_;
    part_begin_ = journal_stored_;
  }
  as_due([&] { remote_.journal_is_whole(); });
  std::lock_guard lock(mutex_);
  journal_is_whole_ = true;
  return true;
}

bool RunMirror::store_files(bool all) {
  OtherFiles files = other_files(folder_, remote_.kind());
  std::map<std::string, std::string> failures;
  bool sent_any = false;
  for (const std::string& name : files.names) {
    std::string path = folder_ + "/" + name;
    std::error_code error;
    Sent now{size_of(path), fs::last_write_time(path, error), Clock::now()};
    const Sent& last = sent_[name];
    if (last.size == now.size && last.time == now.time) continue;
    bool is_known = last.at != Clock::time_point{};
    if (!all && is_known &&
        now.at - last.at < kFileAgain * (1 + static_cast<int64_t>(now.size / kLargeFile)))
      continue;
    try {
      remote_.put_file(folder_, name, [this] { touch(); });
    } catch (const Error& thrown) {
      if (thrown.kind() == ErrorKind::kCancelled) throw;
      if (!fs::exists(path, error)) continue;  // the file existed only for a moment
      remote_.require_owner();  // throws if it is the store that fails, and not this file
      failures[name] = thrown.what();
      continue;
    }
    sent_[name] = now;
    sent_any = true;
  }
  set_failures(failures);
  bool is_first_try = false;
  {
    std::lock_guard lock(mutex_);
    files_due_ = false;
    if (!all) return sent_any;
    is_first_try = !std::exchange(files_tried_, true);
    left_out_ = std::move(files.left_out);
    all_stored_ = journal_ended_ && failures.empty();
  }
  // In the first try, the end of the journal is stored before the pause.
  if (!is_first_try && !failures.empty()) throw Error(ErrorKind::kIo, listed(failures));
  return true;
}

// Warns about files that could be stored until now.
void RunMirror::set_failures(std::map<std::string, std::string> failures) {
  std::map<std::string, std::string> fresh = failures;
  std::unique_lock lock(mutex_);
  for (const auto& [name, why] : file_failures_) fresh.erase(name);
  file_failures_ = std::move(failures);
  bool ending = ending_;
  lock.unlock();
  if (!fresh.empty() && !ending)
    log_warning(str("some files cannot be stored at '", address(), "' at the moment, which is ",
                    "tried again: ", listed(fresh)));
}

void RunMirror::touch() {
  std::lock_guard lock(mutex_);
  if (stopping_) throw Error(ErrorKind::kCancelled, "the rest is not stored");
  progress_ = Clock::now();
}

void RunMirror::made_progress() {
  bool was_told = false, ending = false;
  {
    std::lock_guard lock(mutex_);
    progress_ = Clock::now();
    last_error_.clear();
    was_told = std::exchange(told_, false);
    ending = ending_;
  }
  if (was_told)
    log_warning(str("the ", remote_.kind().what, " is stored at '", address(), "' again"));
  if (ending) on_news_();
}

void RunMirror::failed(const Error& error, std::chrono::milliseconds pause) {
  std::unique_lock lock(mutex_);
  if (remote_.superseded()) {
    superseded_ = error.what();
    changed_.notify_all();
    return;
  }
  last_error_ = error.what();
  bool ending = ending_;
  bool tells = !ending && !std::exchange(told_, true);
  lock.unlock();
  if (tells)
    log_warning(str("the ", remote_.kind().what, " cannot be stored at '", address(),
                    "' at the moment: ", error.what(),
                    "; it goes on, and storing it is tried again"));
  lock.lock();
  changed_.wait_for(lock, ending ? std::min(pause, kLastRetryAtEnd) : pause,
                    [&] { return stopping_ || ending_ != ending; });
}

std::string RunMirror::what_is_missing() const {
  std::vector<std::string> parts;
  for (const auto& [key, copy] : copies_)
    if (copy.wanted != 0 && copy.wanted != copy.stored) parts.push_back(name_of_copy(key));
  if (params_changed_) parts.push_back(remote_.kind().document);
  if (!files_tried_) parts.push_back("result files and logs");
  for (const auto& [name, why] : file_failures_) parts.push_back(name);
  if (!journal_ended_) parts.push_back("the end of the journal");
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

std::string RunMirror::finish(std::chrono::milliseconds patience,
                              const std::function<bool(Deadline until)>& wait,
                              const std::function<void(const std::string&)>& say) {
  std::unique_lock lock(mutex_);
  ending_ = true;
  progress_ = Clock::now();
  changed_.notify_all();
  auto unlocked = [&](const auto& call) {
    lock.unlock();
    call();
    lock.lock();
  };
  for (auto said = Clock::now();;) {
    if (all_stored_) return "";
    if (!superseded_.empty()) return str(superseded_, "; not stored: ", what_is_missing());
    auto now = Clock::now();
    if (now - progress_ >= patience) {
      return str("'", address(), "' does not have: ", what_is_missing(), "; the store has taken ",
                 "nothing for ", patience.count(), " ms (RunConfig::storage_timeout)",
                 last_error_.empty() ? "" : ": ", last_error_);
    }
    if (now - said >= kSayEvery) {
      said = now;
      std::string text =
          str("storing ", what_is_missing(), last_error_.empty() ? "" : "; ", last_error_);
      unlocked([&] { say(text); });
    }
    bool interrupted = false;
    Deadline until = Deadline::after(std::min(progress_ + patience, said + kSayEvery) - now);
    unlocked([&] { interrupted = wait(until); });
    if (interrupted && !all_stored_)
      return str("interrupted; '", address(), "' does not have: ", what_is_missing());
  }
}

std::map<std::string, std::string> RunMirror::left_out() const {
  std::lock_guard lock(mutex_);
  return left_out_;
}

}  // namespace manta::train
