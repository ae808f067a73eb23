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

/// A run in a store, at an address such as s3://bucket/runs/x, and the owner who may write there.
/// An experiment is kept in the same way, with experiment.json for params.json. The checkpoints of
/// trials of a function are in folders trial_00000, ...; trials of a trainer are runs at that
/// address.
///
/// | owner.json | who may commit: a token, and where the journal was; written once per owner |
/// |---|---|
/// | params.json | as in a run folder; without it there is no run |
/// | journal/000001-<token>/000000.jsonl, ... | in parts that end with lines; a folder per owner |
/// | journal/000002-<token>/whole | that journal has all that those before it had |
/// | checkpoint_000007/ | files first, manifest.json last: without it there is no checkpoint |
/// | everything else | as in the run folder: result files, those of trackers, logs |
///
/// A store has no locks. Instead, a process that takes a run over writes another token to
/// owner.json, and every owner reads its token again immediately before it adds or removes
/// anything. An owner whose token is gone has been superseded and writes nothing any more. Requests
/// that a superseded owner had sent at that very moment can still arrive. They cannot get into the
/// new owner's journal, whose folder has another name. A file of a checkpoint that both write at
/// that moment would not match its manifest, which is noticed when it is read.
///
/// The content of a store is not trusted: everything that is read is checked, within the limits of
/// a run folder.
class RemoteRun {
 public:
  /// A token for a future owner. A process that wants to know later whether it became the owner
  /// must note it before.
  static std::string new_token();
  static bool is_token(std::string_view text);

  /// Makes a run at an address. Throws Error(kInvalidArgument) if there is one already or access is
  /// refused, Error(kNotFound) if the bucket does not exist, each saying what to change; Error(kIo)
  /// if the store does not answer. After an error the name is free again, if the store allows that.
  static RemoteRun create(const RemoteAddress& address, const std::string& token = new_token(),
                          const FolderKind& kind = kFolderOfRun);
  /// Takes over the run at an address. The owner until now, if it still runs, notices that at its
  /// next commit. With `from`, takes over only from an owner that has one of these tokens:
  /// otherwise Error(kIo), which names the owner. Throws Error(kNotFound) if there is no run,
  /// Error(kCorrupt), Error(kIo).
  static RemoteRun take_over(const RemoteAddress& address, const std::set<std::string>& from = {},
                             const std::string& token = new_token(),
                             const FolderKind& kind = kFolderOfRun);

  /// Whether there is a run: an owner, and params.json. If a driver died before it had stored
  /// params.json, its remains are not a run. Throws Error(kInvalidArgument) if access is refused,
  /// Error(kIo).
  static bool exists(const RemoteAddress& address, const FolderKind& kind = kFolderOfRun);
  /// The text of params.json. Throws Error(kNotFound) if there is none, Error(kCorrupt) if it is
  /// larger than that of a run folder.
  static std::string read_params(const RemoteAddress& address,
                                 const FolderKind& kind = kFolderOfRun);
  /// Writes the current journal to <folder>/journal.jsonl, without taking the run over. Throws as
  /// `take_over`.
  static void download_journal(const RemoteAddress& address, const std::string& folder);
  /// The checkpoints that have a valid manifest, by report; their files are not checked. Warns
  /// about damaged manifests. Checkpoints with a damaged manifest, or with none, are `others`.
  /// Throws Error(kIo).
  static std::map<int64_t, Checkpoint> checkpoints(const RemoteAddress& address,
                                                   std::set<int64_t>* others = nullptr);

  const RemoteAddress& address() const { return address_; }
  const std::string& token() const { return token_; }
  const FolderKind& kind() const { return kind_; }

  /// Writes the run that was taken over into a folder: everything but checkpoints. Throws
  /// Error(kCorrupt) if one of its names would lead out of the folder.
  void download(const std::string& folder) const;

  /// Reads the owner again, unless it did so less than `fresh_for` ago. If this owner has been
  /// superseded, throws Error(kIo), which names the new one, and remembers it. If the store has
  /// nothing of the run (for example a share that is not mounted), it only throws Error(kIo). All
  /// functions below call it.
  void require_owner(std::chrono::milliseconds fresh_for = {});
  bool superseded() const { return superseded_; }

  void put_params(std::string_view text);
  /// Writes part `number` of this owner's journal, in the place of a shorter one.
  void put_journal(int64_t number, std::string_view lines);
  /// Call it when this owner's journal has everything that earlier owners' journals had: those are
  /// removed.
  void journal_is_whole();
  /// Uploads a checkpoint from a folder that has all its files, to "checkpoint_000007", or
  /// "trial_00003/..."; `at_times` is called whenever the store has taken some megabytes, or a
  /// file.
  void put_checkpoint(const std::string& name, const std::string& folder,
                      const std::function<void()>& at_times);
  /// Removes the manifest first: whatever happens then, the rest does not look like a checkpoint.
  /// Does nothing if there is no such checkpoint.
  void remove_checkpoint(const std::string& name);
  void put_file(const std::string& folder, const std::string& name,
                const std::function<void()>& at_times);
  /// Removes a run that could not begin: its name can be used again. `files` are those of put_file.
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
  std::string from_;     // the journal folder of the owner before; empty: there was none
  std::string before_;   // the journal that counted before that, in case `from_` never becomes
                         // whole
  bool journal_is_whole_ = false;
  std::chrono::steady_clock::time_point looked_at_;
  bool superseded_ = false;
};

}  // namespace manta::train
