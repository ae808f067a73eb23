#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/new_file_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(NewFileTest, HasANameOnceItIsPublished) {
  TemporaryFolder folder;
  NewFile file(folder.path());
  ASSERT_EQ(::write(file.fd(), "all", 3), 3);
  for (const auto& name : folder.entries()) EXPECT_TRUE(name.starts_with("."));
  file.publish("a.txt");
  EXPECT_THAT(folder.entries(), ElementsAre("a.txt"));
  std::stringstream text;
  text << std::ifstream(folder / "a.txt").rdbuf();
  EXPECT_EQ(text.str(), "all");
}

TEST(NewFileTest, IsGoneUnlessItWasPublished) {
  TemporaryFolder folder;
  { NewFile file(folder.path()); }
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(NewFileTest, IsGoneAfterAKill) {
  TemporaryFolder folder;
  {
    NewFile probe(folder.path());
    if (!folder.entries().empty()) GTEST_SKIP() << "this file system has no O_TMPFILE";
  }
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    NewFile file(folder.path());
    bool written = ::write(file.fd(), "half", 4) == 4;
    if (written) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(folder.entries(), IsEmpty());
}

TEST(NewFileTest, NeverReplacesAnother) {
  TemporaryFolder folder;
  NewFile(folder.path()).publish("a.txt");
  Error error = error_of([&] { NewFile(folder.path()).publish("a.txt"); });
  EXPECT_EQ(error.kind(), ErrorKind::kIo);
  EXPECT_THAT(error.what(), HasSubstr("a.txt"));
  EXPECT_THAT(folder.entries(), ElementsAre("a.txt"));
  EXPECT_THAT(message_of([&] { NewFile(folder / "nowhere"); }), HasSubstr("nowhere"));
}

}  // namespace
}  // namespace manta
