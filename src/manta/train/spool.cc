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
#include "manta/train/run_storage_internal.h"
#include "manta/train/spool_internal.h"

namespace manta::train {
namespace {

namespace fs = std::filesystem;

constexpr JsonLimits kStoreNoteLimits{.bytes = 1 << 16, .depth = 4, .values = 100};

std::string spools() { return results_folder() + "/.remote"; }

void remove_quietly(const std::string& folder) {
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

std::string spool_of(const std::string& folder) { return fs::path(folder).parent_path(); }

bool is_in_spool(const std::string& path) {
  if (const char* home = std::getenv("HOME"); !home || !*home) return false;
  std::error_code error;
  fs::path folder = fs::canonical(path, error);
  if (error) return false;
  fs::path all = fs::canonical(spools(), error);
  return !error && folder.parent_path().parent_path() == all;
}

// The store of a spool, and the token of its owner.
struct StoreNote {
  std::string token;
  std::string next = {};  // the token of a future owner, which may be the owner already
};

void write_note(const std::string& folder, const RemoteAddress& address, const StoreNote& note) {
  Json json = {{"address", address.text()}, {"token", note.token}};
  if (!note.next.empty()) json["next"] = note.next;
  replace_file(folder + "/" + kStoreNote, to_text(json, 1) + "\n");
}

// Whatever happens to this process, the spool then knows the token that the store has.
RemoteRun take_over_from(const FolderKind& kind, const std::string& folder) {
  std::string path = folder + "/" + kStoreNote;
  Json json = read_json(path, kStoreNoteLimits);
  JsonFields fields(json, str("'", path, "'"));
  auto address = remote_address(fields.text("address"));
  if (!address) fields.fail("address", "an address such as s3://bucket/runs/x");
  StoreNote note{fields.text("token"),
                 fields.has("next") ? fields.text("next") : RemoteRun::new_token()};
  if (!RemoteRun::is_token(note.next)) fields.fail("next", "a token");
  write_note(folder, *address, note);
  if (!RemoteRun::exists(*address, kind)) return RemoteRun::create(*address, note.next, kind);
  return RemoteRun::take_over(*address, {note.token, note.next}, note.next, kind);
}

// Makes the mirror of the run that `remote` owns now.
std::unique_ptr<RunMirror> mirror_of(RemoteRun remote, const std::string& folder, bool is_ahead,
                                     std::function<void()> on_news) {
  write_note(folder, remote.address(), {remote.token()});
  return std::make_unique<RunMirror>(std::move(remote), folder, is_ahead, std::move(on_news));
}

}  // namespace

std::string make_spool() {
  std::string all = spools();
  std::error_code error;
  fs::create_directories(fs::path(all).parent_path(), error);
  errno = error.value();
  if (error || (::mkdir(all.c_str(), 0700) != 0 && errno != EEXIST))
    throw_file_errno(str("creating '", all, "', where runs are until they are in their store"));
  std::string folder = all + "/XXXXXX";
  if (!::mkdtemp(folder.data())) throw_file_errno(str("creating a folder in '", all, "'"));
  return folder;
}

std::unique_ptr<RunMirror> mirror_of_new(const FolderKind& kind, RemoteAddress address,
                                         bool may_rename, const RunConfig& config,
                                         const std::function<std::string(const RunConfig&)>& make,
                                         std::function<void()> on_news) {
  RemoteAddress first = address;
  for (int number = 2; may_rename && RemoteRun::exists(address, kind); ++number)
    address = first.with_path(str(first.path, "_", number));
  RemoteRun remote = RemoteRun::create(address, RemoteRun::new_token(), kind);
  std::string spool;
  try {
    spool = make_spool();
    RunConfig local = config;
    set_run_address(local, address);
    local.storage_path = spool;
    local.folder_mode = 0700;
    return mirror_of(remote, make(local), /*is_ahead=*/false, std::move(on_news));
  } catch (const Error& error) {
    if (!spool.empty()) remove_quietly(spool);
    try {
      remote.forget();
    } catch (const Error&) {  // the first error says why
    }
    throw;
  }
}

std::unique_ptr<RunMirror> mirror_of_stored(const FolderKind& kind, const RemoteAddress& address,
                                            const std::function<void(const std::string&)>& open,
                                            std::function<void()> on_news) {
  RemoteRun remote = RemoteRun::take_over(address, {}, RemoteRun::new_token(), kind);
  std::string spool = make_spool();
  try {
    RunConfig run;
    set_run_address(run, address);
    std::string folder = spool + "/" + run.name;
    make_folder_anew(folder);
    remote.download(folder);
    open(folder);
    return mirror_of(std::move(remote), folder, /*is_ahead=*/false, std::move(on_news));
  } catch (...) {
    remove_quietly(spool);
    throw;
  }
}

std::unique_ptr<RunMirror> mirror_of_spool(const FolderKind& kind, const std::string& folder,
                                           std::function<void()> on_news) {
  if (!is_in_spool(folder)) return nullptr;
  return mirror_of(take_over_from(kind, folder), folder, /*is_ahead=*/true, std::move(on_news));
}

void discard_spool(const std::string& folder, RunMirror& mirror) {
  mirror.stop();
  remove_quietly(spool_of(folder));
}

void remove_spool(const std::string& folder, RunMirror& mirror) {
  auto left_out = mirror.left_out();
  if (left_out.empty()) return discard_spool(folder, mirror);
  std::string names;
  for (const auto& [name, why] : left_out)
    names += str(names.empty() ? "" : ", ", "'", name, "' (", why, ")");
  log_warning(
      str("'", mirror.address(), "' does not have ", names, "; '", folder, "' is therefore kept"));
}

}  // namespace manta::train
