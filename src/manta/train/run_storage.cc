#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/owned_folder_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/run_files_internal.h"
#include "manta/train/run_storage_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kStoreNoteLimits{.bytes = 1 << 16, .depth = 4, .values = 100};

std::string spools() { return results_folder() + "/.remote"; }

void remove_quietly(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

std::string spool_of(const std::string& run_folder) { return fs::path(run_folder).parent_path(); }

bool is_in_spool(const std::string& run_folder) {
  if (const char* home = std::getenv("HOME"); !home || !*home) return false;
  std::error_code error;
  fs::path folder = fs::canonical(run_folder, error);
  if (error) return false;
  fs::path all = fs::canonical(spools(), error);
  return !error && folder.parent_path().parent_path() == all;
}

// Which store a spool is for, and as whom.
struct StoreNote {
  std::string token;
  std::string next = {};  // that of an owner to be, which may be the owner already
};

void write_note(const std::string& run_folder, const RemoteAddress& address,
                const StoreNote& note) {
  Json json = {{"address", address.text()}, {"token", note.token}};
  if (!note.next.empty()) json["next"] = note.next;
  replace_file(run_folder + "/" + kStoreNote, to_text(json, 1) + "\n");
}

// Whatever becomes of this process, the spool knows the token that the store has then.
RemoteRun take_over_from(const std::string& run_folder) {
  std::string path = run_folder + "/" + kStoreNote;
  Json json = read_json(path, kStoreNoteLimits);
  JsonFields fields(json, str("'", path, "'"));
  auto address = remote_address(fields.text("address"));
  if (!address) fields.fail("address", "an address such as s3://bucket/runs/x");
  StoreNote note{fields.text("token"),
                 fields.has("next") ? fields.text("next") : RemoteRun::new_token()};
  if (!RemoteRun::is_token(note.next)) fields.fail("next", "a token");
  write_note(run_folder, *address, note);
  if (!RemoteRun::exists(*address)) return RemoteRun::create(*address, note.next);
  return RemoteRun::take_over(*address, {note.token, note.next}, note.next);
}

// The run that `remote` owns now, in a spool.
RunStorage with_mirror(std::unique_ptr<RunFolder> folder, RemoteRun remote, bool is_ahead,
                       std::function<void()> on_news) {
  write_note(folder->path(), remote.address(), {remote.token()});
  RunStorage storage;
  storage.folder = std::move(folder);
  storage.mirror = std::make_unique<RunMirror>(std::move(remote), storage.folder->path(), is_ahead,
                                               std::move(on_news));
  return storage;
}

RunStorage make_remote(const Training& training, RemoteAddress address,
                       std::function<void()> on_news) {
  if (training.run.name.empty()) {
    RemoteAddress first = address;
    for (int number = 2; RemoteRun::exists(address); ++number)
      address = first.with_path(str(first.path, "_", number));
  }
  RemoteRun remote = RemoteRun::create(address);
  std::string spool;
  try {
    spool = make_spool();
    RunConfig local = training.run;
    set_run_address(local, address);
    local.storage_path = spool;
    local.folder_mode = 0700;
    return with_mirror(RunFolder::create(local, params_of(training)), remote, /*is_ahead=*/false,
                       std::move(on_news));
  } catch (const Error& error) {
    if (!spool.empty()) remove_quietly(spool);
    try {
      remote.forget();
    } catch (const Error&) {  // the first one says why
    }
    throw;
  }
}

RunStorage restore_remote(const RemoteAddress& address, std::function<void()> on_news) {
  RemoteRun remote = RemoteRun::take_over(address);
  std::string spool = make_spool();
  try {
    RunConfig run;
    set_run_address(run, address);
    std::string folder = spool + "/" + run.name;
    make_folder_anew(folder);
    remote.download(folder);
    return with_mirror(RunFolder::open(folder), std::move(remote), /*is_ahead=*/false,
                       std::move(on_news));
  } catch (...) {
    remove_quietly(spool);
    throw;
  }
}

}  // namespace

std::string make_spool() {
  std::string all = spools();
  std::error_code error;
  fs::create_directories(fs::path(all).parent_path(), error);
  if (::mkdir(all.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno(str("creating '", all, "', where runs are until they are in their store"));
  std::string folder = all + "/XXXXXX";
  if (!::mkdtemp(folder.data())) throw_errno(str("creating a folder in '", all, "'"));
  return folder;
}

std::optional<RemoteAddress> run_address(const RunConfig& run) {
  auto storage = remote_address(run.storage_path);
  if (!storage) return std::nullopt;
  if (storage->scheme == "s3" && storage->authority.empty())
    throw Error(ErrorKind::kInvalidArgument, str("RunConfig::storage_path: '", run.storage_path,
                                                 "' has no bucket; give s3://bucket/folder"));
  check_run_name(run.name);
  if (run.name.find_first_of("?#%") != std::string::npos)
    throw Error(ErrorKind::kInvalidArgument,
                str("RunConfig::name becomes part of an address, and cannot have '?', '#' or '%' "
                    "in it (was '",
                    run.name, "')"));
  return storage->child(run.name);
}

void set_run_address(RunConfig& run, const RemoteAddress& address) {
  size_t slash = address.path.rfind('/');
  run.name = slash == std::string::npos ? address.path : address.path.substr(slash + 1);
  if (run.name.empty())
    throw Error(ErrorKind::kInvalidArgument,
                str("'", address.text(), "' is no address of a run: it has no path"));
  check_run_name(run.name);
  run.storage_path =
      address.with_path(slash == std::string::npos ? "" : address.path.substr(0, slash)).text();
}

void require_local_storage(const std::string& path, const std::string& who) {
  if (!remote_address(path)) return;
  throw Error(
      ErrorKind::kInvalidArgument,
      str(who, " keeps its runs in a local folder; storage_path cannot be an address (was '", path,
          "'). Runs of TorchTrainer, XGBoostTrainer and DataParallelTrainer can be "
          "at one"));
}

RunStorage RunStorage::open(const Training& training, std::function<void()> on_news) {
  if (training.restore_from.empty()) {
    RunConfig run = training.run;
    if (run.name.empty()) run.name = name_by_time(training.trainer);
    if (auto address = run_address(run)) return make_remote(training, *address, std::move(on_news));
    return {RunFolder::create(training.run, params_of(training)), nullptr};
  }
  if (auto address = remote_address(training.restore_from))
    return restore_remote(*address, std::move(on_news));
  auto folder = RunFolder::open(training.restore_from);
  if (!is_in_spool(folder->path())) return {std::move(folder), nullptr};
  RemoteRun remote = take_over_from(folder->path());
  return with_mirror(std::move(folder), std::move(remote), /*is_ahead=*/true, std::move(on_news));
}

void RunStorage::forget() {
  folder->forget();
  if (mirror) mirror->forget();
  discard_spool();
}

void RunStorage::discard_spool() {
  if (!mirror) return;
  mirror->stop();
  remove_quietly(spool_of(folder->path()));
}

void RunStorage::remove_spool() {
  auto left_out = mirror ? mirror->left_out() : std::map<std::string, std::string>();
  if (left_out.empty()) return discard_spool();
  std::string names;
  for (const auto& [name, why] : left_out)
    names += str(names.empty() ? "" : ", ", "'", name, "' (", why, ")");
  log_warning(str("'", mirror->address(), "' does not have ", names, "; '", folder->path(),
                  "' is therefore kept"));
}

}  // namespace manta::train
