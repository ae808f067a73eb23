#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/session_folder_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

class SessionFolderTest : public testing::Test {
 protected:
  fs::path make_folder(const std::string& name) {
    fs::create_directories(parent_ / name / "logs");
    std::ofstream(parent_ / name / "logs" / "worker-1.log") << "text";
    std::ofstream(parent_ / name / "lock");
    return parent_ / name;
  }

  TemporaryFolder folder_;
  fs::path parent_ = folder_.path();
};

// A process that has ended.
pid_t dead_pid() {
  pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

TEST_F(SessionFolderTest, IsPrivateAndRemoved) {
  fs::path path;
  {
    SessionFolder folder(parent_.string());
    path = folder.path();
    EXPECT_EQ(path.parent_path(), parent_);
    EXPECT_THAT(path.filename().string(), StartsWith(str("manta-", ::getpid(), "-")));
    struct stat info {};
    ASSERT_EQ(::stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700u);
    fs::create_directories(path / "logs");
    std::ofstream(path / "logs" / "worker-1.log") << "text";
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(parent_));
}

TEST_F(SessionFolderTest, TheParentIsMade) {
  SessionFolder folder((parent_ / "a" / "b").string());
  EXPECT_EQ(fs::path(folder.path()).parent_path(), parent_ / "a" / "b");
}

TEST_F(SessionFolderTest, TwoRunsHaveTwoFolders) {
  SessionFolder first(parent_.string()), second(parent_.string());
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(fs::exists(first.path()));
}

TEST_F(SessionFolderTest, ARelativeParentIsMadeAbsolute) {
  fs::path before = fs::current_path();
  fs::current_path(parent_);
  SessionFolder folder("here");
  fs::current_path(before);
  EXPECT_TRUE(fs::path(folder.path()).is_absolute());
  EXPECT_TRUE(fs::exists(folder.path()));
}

TEST_F(SessionFolderTest, WhereNothingCanBeMadeIsNamed) {
  std::ofstream(parent_ / "file");
  for (const std::string& parent : {(parent_ / "file").string(), (parent_ / "file/x").string()}) {
    try {
      SessionFolder folder(parent);
      ADD_FAILURE() << "threw nothing";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
      EXPECT_THAT(error.what(), HasSubstr("'" + parent + "'"));
      EXPECT_THAT(error.what(), HasSubstr("InitOptions::temporary_folder"));
    }
  }
}

// Not "in the working folder instead".
TEST_F(SessionFolderTest, ATemporaryFolderThatDoesNotExistIsAnError) {
  fs::path before = fs::current_path();
  fs::current_path(parent_);
  ::setenv("TMPDIR", (parent_ / "missing").c_str(), 1);
  EXPECT_THROW(SessionFolder(""), Error);
  ::unsetenv("TMPDIR");
  fs::current_path(before);
}

TEST_F(SessionFolderTest, LeftoversOfTheDeadAreRemoved) {
  std::string dead = std::to_string(dead_pid());
  fs::path leftover = make_folder("manta-" + dead + "-abcdef");
  SessionFolder folder(parent_.string());
  EXPECT_FALSE(fs::exists(leftover));
}

// A folder whose process died before it locked it, or is about to lock it.
TEST_F(SessionFolderTest, AnEmptyFolderWithoutALockIsRemovedAfterAMinute) {
  std::string dead = std::to_string(dead_pid());
  fs::path old = parent_ / ("manta-" + dead + "-abcdef"),
           young = parent_ / ("manta-" + dead + "-ghijkl");
  fs::create_directories(old);
  fs::create_directories(young);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  SessionFolder folder(parent_.string());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
}

TEST_F(SessionFolderTest, WhatMayBeInUseOrIsNotOursIsKept) {
  std::string dead = std::to_string(dead_pid());
  std::vector<fs::path> kept{make_folder(str("manta-", ::getppid(), "-abcdef")),  // lives
                             make_folder(str("manta-", ::getpid(), "-abcdef")),
                             make_folder("manta-1-abcdef"),
                             make_folder("manta-" + dead + "-locked"),
                             make_folder("manta-" + dead + "-longer-name"),
                             make_folder("manta-" + dead),
                             make_folder("manta-x" + dead + "-abcdef"),
                             make_folder("manta--1-abcdef"),
                             make_folder("manta-notes"),
                             make_folder("other-" + dead + "-abcdef")};
  UniqueFd lock(::open((kept[3] / "lock").c_str(), O_RDWR));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  fs::path unlocked = make_folder("manta-" + dead + "-nolock");  // not ours: we make one
  fs::remove(unlocked / "lock");
  kept.push_back(unlocked);
  fs::path target = make_folder("precious");
  fs::path link = parent_ / ("manta-" + dead + "-symlnk");
  fs::create_directory_symlink(target, link);
  kept.push_back(target / "logs" / "worker-1.log");
  std::ofstream(parent_ / ("manta-" + dead + "-a_file"));
  kept.push_back(parent_ / ("manta-" + dead + "-a_file"));

  SessionFolder folder(parent_.string());
  for (const auto& path : kept) EXPECT_TRUE(fs::exists(path)) << path;
  lock.reset();
  SessionFolder next(parent_.string());
  EXPECT_FALSE(fs::exists(kept[3]));
}

TEST_F(SessionFolderTest, AFolderIsLockedWhileItsRunLives) {
  SessionFolder folder(parent_.string());
  UniqueFd lock(::open((folder.path() + "/lock").c_str(), O_RDWR));
  ASSERT_TRUE(lock);
  EXPECT_NE(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
}

}  // namespace
}  // namespace manta
