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

/// Keeps a run in a store equal to its folder on this machine, on a thread of its own: nothing that
/// a run calls here waits for the store, but for the constructor, `find_copies`, `fetch` and
/// `finish`.
///
/// What was committed to the folder is stored in this order: params.json; checkpoints, the oldest
/// first; then the removal of those that CheckpointConfig::num_to_keep leaves no place for, each
/// only once a later one is stored; the journal, after each checkpoint and at most every 5 seconds,
/// but never a line that came after a checkpoint which is not stored yet: what the store says of a
/// run, above all that it has finished, must be true of what is there; and always what came before
/// a checkpoint, before that is stored;
/// other files that are new or changed, each at most every minute, large ones less often.
/// If the store is slower than the run, a checkpoint that is removed here before its turn is never
/// stored. Until it is stored it has a second name (a hard link) below <run>/.upload, so what waits
/// takes disk space, no memory.
///
/// What fails is tried again for as long as the run goes on, after 0.5 s at first and every 10 s in
/// the end. There is one warning when that begins and one when it is over. A file that the store
/// refuses while it takes others holds up nothing else.
///
/// The same for the folder of an experiment, with experiment.json, and the checkpoints of each
/// trial of a function in the place of those of the run; whichever was committed first comes first.
/// All that is said of the journal is said of the experiment's, which tells of all of them.
class RunMirror final : public CheckpointCopies {
 public:
  /// Stores params.json and, unless the folder `is_ahead` of the store, the journal. If it is
  /// ahead, checkpoints that the store lacks come first: the journal waits until `find_copies`, or
  /// `checkpoints_are_known`, has been called. Throws as RemoteRun. `on_news` is called
  /// on the mirror's thread if somebody else takes the run over, and whenever `finish` has
  /// something to look at.
  RunMirror(RemoteRun remote, std::string folder, bool is_ahead, std::function<void()> on_news);
  ~RunMirror() override;  ///< Drops what is not stored yet; waits for the request at hand.

  /// Of the run, as text.
  std::string address() const { return remote_.address().text(); }

  /// params.json is another one now.
  void params_changed();
  std::map<int64_t, Checkpoint> find_copies(const std::map<int64_t, Checkpoint>& here) override;
  void fetch(int64_t index, const std::string& folder) override;
  void committed(int64_t index, const std::string& folder) override;
  void discarded(int64_t index) override;
  /// The same for the checkpoints of a trial, in the folder of that name; any thread may use it,
  /// one at a time. Those of one that `is_new` are not looked for in the store: there can be none.
  std::unique_ptr<CheckpointCopies> copies_of(const std::string& trial, bool is_new);
  /// Of an experiment: `find_copies` was called for each trial of which there is a folder here.
  void checkpoints_are_known();

  /// Waits until the store has what the journal has now. Throws Error(kIo) if it has not at the
  /// deadline, or somebody else took over; Error(kCancelled) once `cancelled` is set, at the latest
  /// when `wake` is called after that.
  void await_journal(Deadline deadline, const std::atomic<bool>& cancelled);
  void wake();

  /// Somebody else has taken the run over: the message that says who; empty if not.
  std::string superseded() const;

  /// Stores all the rest: what is on its way, the other files of the folder, the end of the journal
  /// last. Nothing may change there any more. Returns nothing if everything is stored; otherwise
  /// what is not, and why, after the store has taken nothing for `patience`, or `wait` says that
  /// the user does not want to wait. `wait` returns at the deadline, or earlier, as it must after
  /// `on_news`. `say` gets a line now and then while it takes long.
  std::string finish(std::chrono::milliseconds patience,
                     const std::function<bool(Deadline until)>& wait,
                     const std::function<void(const std::string&)>& say);
  /// What of the folder cannot be in a store, and why; known when `finish` has returned.
  std::map<std::string, std::string> left_out() const;
  /// Drops what is not stored yet, and waits for the request at hand: the folder is not read any
  /// more.
  void stop();

  /// A checkpoint of the folder as it is in the store.
  Checkpoint stored(const Checkpoint& checkpoint, const std::string& trial = "") const;

  /// Of a run that could not begin: removes it from the store. Does not throw.
  void forget();

 private:
  struct Copy {
    uint64_t wanted = 0;   // which content; 0: none
    uint64_t stored = 0;   // which one the store has; 0: none
    std::string folder;    // what is to be uploaded
    uint64_t journal = 0;  // how long the journal was when it was committed
  };
  using Key = std::pair<std::string, int64_t>;  // the trial, of a run none; the report
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

  RemoteRun remote_;  // of the thread, after the constructor
  const std::string folder_;
  const std::function<void()> on_news_;
  std::atomic<uint64_t> versions_ = 1;  // of contents; 1: what the store had at the start

  // Of the thread, too: where the next bytes of the journal go.
  int64_t part_ = 0;
  uint64_t part_begin_ = 0;
  // And which other files were stored, as they were then.
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
  bool journal_is_whole_ = false;  // it has all that earlier owners had
  bool ending_ = false;
  bool files_tried_ = false;    // each of them, since the end
  bool journal_ended_ = false;  // its last line is stored
  bool all_stored_ = false;
  std::map<std::string, std::string> file_failures_;  // other files that are not stored, and why
  std::map<std::string, std::string> left_out_;
  bool stopping_ = false;
  std::string superseded_;
  std::string last_error_;  // of what is tried again; empty: the last try went well
  bool told_ = false;       // the user, of that
  Clock::time_point progress_;
  std::thread thread_;
};

}  // namespace manta::train
