#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/remote_run_internal.h"

namespace manta::train {

/// Keeps a run in a store equal to its folder on this machine, on a separate thread. No call of a
/// run here waits for the store, except the constructor, `find_copies`, `fetch` and `finish`.
///
/// It stores committed changes of the folder in this order. First params.json. Then checkpoints,
/// the oldest first. Then it removes checkpoints beyond CheckpointConfig::num_to_keep, each only
/// once a later one is stored. Then the journal, after each checkpoint and at most every 5 seconds:
/// all lines before a checkpoint are stored before that checkpoint, and no line after a checkpoint
/// is stored before it. So what the store says about a run, above all that it has finished, is true
/// of the files there. Then other files that are new or changed, each at most every minute, large
/// ones less often. If the store is slower than the run, a checkpoint that is removed here before
/// its turn is never stored. Until a checkpoint is stored it has a second name (a hard link) below
/// <run>/.upload, so waiting checkpoints take disk space, but no memory.
///
/// Failed requests are tried again for as long as the run goes on, at first after 0.5 s, later
/// every 10 s. There is one warning when failures begin and one when they are over. A file that the
/// store refuses while it takes others holds up nothing else.
///
/// For the folder of an experiment it does the same, with experiment.json, and with the checkpoints
/// of each trial of a function instead of those of the run, in the order of their commits. The
/// rules for the journal hold for the experiment's journal, which covers all trials.
class RunMirror final : public CheckpointCopies {
 public:
  /// Stores params.json and, unless the folder `is_ahead` of the store, the journal. If it is
  /// ahead, checkpoints that the store lacks come first: the journal waits until `find_copies`, or
  /// `checkpoints_are_known`, has been called. Throws as RemoteRun. `on_news` is called on the
  /// mirror's thread if another process takes the run over, and whenever there is news for
  /// `finish`.
  RunMirror(RemoteRun remote, std::string folder, bool is_ahead, std::function<void()> on_news);
  ~RunMirror() override;  ///< Drops what is not stored yet; waits for the current request.

  /// The address of the run, as text.
  std::string address() const { return remote_.address().text(); }

  /// Call it when params.json has changed.
  void params_changed();
  std::map<int64_t, Checkpoint> find_copies(const std::map<int64_t, Checkpoint>& here) override;
  void fetch(int64_t index, const std::string& folder) override;
  void committed(int64_t index, const std::string& folder) override;
  void discarded(int64_t index) override;
  /// The CheckpointCopies of a trial, in the folder of that name. Any thread may use it, one at a
  /// time. If the trial `is_new`, its checkpoints are not looked for in the store: there can be
  /// none.
  std::unique_ptr<CheckpointCopies> copies_of(const std::string& trial, bool is_new);
  /// For an experiment: call it when `find_copies` was called for each trial that has a folder
  /// here.
  void checkpoints_are_known();

  /// Waits until the store has what the journal has now. Throws Error(kIo) if the store does not
  /// have it at the deadline, or if another process took the run over; Error(kCancelled) once
  /// `cancelled` is set, at the latest when `wake` is called after that.
  void await_journal(Deadline deadline, const std::atomic<bool>& cancelled);
  void wake();

  /// If another process has taken the run over: the message that says which; otherwise empty.
  std::string superseded() const;

  /// Stores the rest: pending uploads, the other files of the folder and, last, the end of the
  /// journal. The folder may not change any more. Returns an empty text if everything is stored.
  /// Otherwise it returns what is not stored, and why, once the store has taken nothing for
  /// `patience`, or `wait` says that the user does not want to wait. `wait` returns at the
  /// deadline, or earlier; after `on_news` it must return at once. `say` gets a line now and then
  /// if it takes long.
  std::string finish(std::chrono::milliseconds patience,
                     const std::function<bool(Deadline until)>& wait,
                     const std::function<void(const std::string&)>& say);
  /// The files of the folder that cannot be in a store, and why; known when `finish` has returned.
  std::map<std::string, std::string> left_out() const;
  /// Drops what is not stored yet, and waits for the current request: after that the folder is not
  /// read any more.
  void stop();

  /// The Checkpoint in the store for a checkpoint of the folder.
  Checkpoint stored(const Checkpoint& checkpoint, const std::string& trial = "") const;

  /// Removes a run that could not begin from the store. Does not throw.
  void forget();

 private:
  struct Copy {
    uint64_t wanted = 0;   // the version of the content that is wanted; 0: none
    uint64_t stored = 0;   // the version that the store has; 0: none
    std::string folder;    // the folder to be uploaded
    uint64_t journal = 0;  // the journal's length when the checkpoint was committed
  };
  using Key = std::pair<std::string, int64_t>;  // trial (empty for a run), report
  class CopiesOfTrial;
  struct Next;  // what to do next

  void work();
  std::optional<Next> next();
  /// Whether the store has taken something, or finish() has something to look at.
  bool perform(const Next& next);
  std::map<int64_t, Checkpoint> find_copies(const std::string& trial,
                                            const std::map<int64_t, Checkpoint>& here);
  void committed(const Key& key, const std::string& folder);
  void discarded(const Key& key);
  RemoteAddress address_of(const std::string& trial) const;
  void set_stored(const Key& key, uint64_t version);
  void remove_from_store(const Key& key);
  Copy linked(const Key& key, const std::string& folder);
  uint64_t journal_limit() const;
  bool store_journal();
  bool store_files(bool all);
  void touch();
  void made_progress();
  void failed(const Error& error, std::chrono::milliseconds pause);
  void set_failures(std::map<std::string, std::string> failures);
  std::string what_is_missing() const;

  RemoteRun remote_;  // only for the thread, after the constructor
  const std::string folder_;
  const std::function<void()> on_news_;
  std::atomic<uint64_t> versions_ = 1;  // of contents; 1: what the store had at the start

  // Also for the thread: where the next bytes of the journal go.
  int64_t part_ = 0;
  uint64_t part_begin_ = 0;
  // Also for the thread: the other files that were stored, as they were then.
  struct Sent {
    uint64_t size = 0;
    std::filesystem::file_time_type time = {};
    Clock::time_point at = {};
  };
  std::map<std::string, Sent> sent_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<Key, Copy> copies_;
  std::vector<std::string> doomed_;  // folders of uploads that are not wanted any more
  bool params_changed_ = false;
  bool journal_due_ = false;
  bool files_due_ = false;
  uint64_t journal_stored_ = 0;    // bytes
  bool journal_waits_ = false;     // until it is known which checkpoints the store lacks
  bool journal_is_whole_ = false;  // it has everything that earlier owners' journals had
  bool ending_ = false;
  bool files_tried_ = false;    // each of the other files has been tried since the end
  bool journal_ended_ = false;  // its last line is stored
  bool all_stored_ = false;
  std::map<std::string, std::string> file_failures_;  // other files that are not stored, and why
  std::map<std::string, std::string> left_out_;
  bool stopping_ = false;
  std::string superseded_;
  std::string last_error_;  // of requests that are tried again; empty: the last try succeeded
  bool told_ = false;       // whether the user was told of last_error_
  Clock::time_point progress_;
  std::thread thread_;
};

}  // namespace manta::train
