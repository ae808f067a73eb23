#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/json.h"
#include "manta/io/remote_files_internal.h"
#include "manta/train/checkpoint.h"
#include "manta/train/run_files_internal.h"

namespace manta::train {

/// A run in a store, at an address such as s3://bucket/runs/x, and who may write there. An
/// experiment is kept in the same way, with experiment.json for params.json; the checkpoints of its
/// functions' trials are in folders trial_00000, ..., its trainers' trials are runs there.
///
/// | owner.json | who may commit: a token, and where the journal was; written once per owner |
/// |---|---|
/// | params.json | as in a run folder; without it there is no run |
/// | journal/000001-<token>/000000.jsonl, ... | in parts that end with lines; a folder per owner |
/// | journal/000002-<token>/whole | that journal has all that those before it had |
/// | checkpoint_000007/ | files first, manifest.json last: without it there is no checkpoint |
/// | everything else | as in the run folder: result files, those of trackers, logs |
///
/// A store has no locks. Instead, whoever takes a run over writes another token to owner.json, and
/// every owner reads its token again immediately before anything appears or goes. One whose token
/// is gone has been superseded and writes nothing any more. What a superseded owner had sent at
/// that very moment can still arrive. It cannot get into the journal of the other, whose folder has
/// another name; a file of a checkpoint that both write at that moment would not fit its manifest,
/// which shows when it is read.
///
/// Nobody vouches for what is in a store: everything that is read is checked, within the limits of
/// a run folder.
class RemoteRun {
 public:
  /// For an owner to be. Whoever wants to know later whether it became the owner notes it before.
  static std::string new_token();
  static bool is_token(std::string_view text);

  /// Makes a run at an address. Throws Error(kInvalidArgument) if there is one already or access is
  /// refused, Error(kNotFound) if the bucket does not exist, each saying what to change; Error(kIo)
  /// if the store does not answer. Leaves the name free then, if the store lets it.
  static RemoteRun create(const RemoteAddress& address, const std::string& token = new_token(),
                          const FolderKind& kind = kFolderOfRun);
  /// Takes over the run at an address. Whoever owned it until now, if that still runs, notices when
  /// it commits the next time. With `from`, only from an owner that has one of these tokens:
  /// Error(kIo) names another. Throws Error(kNotFound) if there is no run, Error(kCorrupt),
  /// Error(kIo).
  static RemoteRun take_over(const RemoteAddress& address, const std::set<std::string>& from = {},
                             const std::string& token = new_token(),
                             const FolderKind& kind = kFolderOfRun);

  /// Whether there is a run: an owner, and params.json. What a driver left that died before it had
  /// stored that is none. Throws Error(kInvalidArgument) if access is refused, Error(kIo).
  static bool exists(const RemoteAddress& address, const FolderKind& kind = kFolderOfRun);
  /// The text of params.json. Throws Error(kNotFound) if there is none, Error(kCorrupt) if it is
  /// larger than that of a run folder.
  static std::string read_params(const RemoteAddress& address,
                                 const FolderKind& kind = kFolderOfRun);
  /// Writes the journal that counts now to <folder>/journal.jsonl; takes nothing over. Throws as
  /// `take_over`.
  static void download_journal(const RemoteAddress& address, const std::string& folder);
  /// The checkpoints that have a valid manifest, by report; their files are not looked at. Warns of
  /// those whose manifest is damaged. These, and those that have none, are `others`. Throws
  /// Error(kIo).
  static std::map<int64_t, Checkpoint> checkpoints(const RemoteAddress& address,
                                                   std::set<int64_t>* others = nullptr);

  const RemoteAddress& address() const { return address_; }
  const std::string& token() const { return token_; }
  const FolderKind& kind() const { return kind_; }

  /// Writes the run that was taken over into a folder: everything but checkpoints. Throws
  /// Error(kCorrupt) if it has a name that would lead out of the folder.
  void download(const std::string& folder) const;

  /// Reads the owner again, unless that was less than `fresh_for` ago. Throws Error(kIo) naming the
  /// new one if this has been superseded, and remembers it. A store that has nothing of the run, as
  /// a share that is not mounted, is Error(kIo) only. Everything below calls it.
  void require_owner(std::chrono::milliseconds fresh_for = {});
  bool superseded() const { return superseded_; }

  void put_params(std::string_view text);
  /// Part `number` of this owner's journal, in the place of a shorter one.
  void put_journal(int64_t number, std::string_view lines);
  /// The journal of this owner has everything that those before it had: theirs are removed.
  void journal_is_whole();
  /// From a folder that has all its files, to "checkpoint_000007", or "trial_00003/...";
  /// `at_times` is called whenever the store has taken some megabytes, or a file.
  void put_checkpoint(const std::string& name, const std::string& folder,
                      const std::function<void()>& at_times);
  /// The manifest first: whatever happens meanwhile, it does not look like one. Nothing to do if
  /// there is none.
  void remove_checkpoint(const std::string& name);
  void put_file(const std::string& folder, const std::string& name,
                const std::function<void()>& at_times);
  /// Of a run that could not begin: its name can be used again. `files` are those of put_file.
  void forget(const std::vector<std::string>& files = {});

 private:
  RemoteRun(RemoteAddress address, std::string token, const FolderKind& kind);
  void claim(int64_t generation, const std::string& from, const std::string& before);
  std::string earlier_journal() const;
  void remove_earlier_journals();
  void put(const std::string& folder, const std::string& name, const RemoteAddress& to,
           const std::function<void()>& at_times);

  RemoteAddress address_;
  std::string token_;
  FolderKind kind_;
  std::string journal_;  // its folder in journal/, which names the owner
  std::string from_;     // that of the owner before; empty: there was none
  std::string before_;   // the one that counted then, in case `from_` never becomes whole
  bool journal_is_whole_ = false;
  std::chrono::steady_clock::time_point looked_at_;
  bool superseded_ = false;
};

}  // namespace manta::train
