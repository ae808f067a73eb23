#include <gmock/gmock.h>

#include <set>

#include "manta/base/error_of_internal.h"
#include "manta/data/early_messages_internal.h"

namespace manta::data {
namespace {

TEST(EarlyMessagesTest, GivesWhatWasSaidAboutAPassInOrder) {
  EarlyMessages early;
  early.keep(3, 1, WindowRows{3, 1, 10, 100});
  early.keep(4, 1, WantKnown{4, 50});
  early.keep(3, 2, LeavePass{3});
  auto said = early.take(3);
  ASSERT_EQ(said.size(), 2);
  EXPECT_EQ(said[0].node, 1);
  EXPECT_EQ(std::get<WindowRows>(said[0].message).rows, 10);
  EXPECT_EQ(said[1].node, 2);
  EXPECT_TRUE(std::holds_alternative<LeavePass>(said[1].message));
  EXPECT_TRUE(early.take(3).empty());
  EXPECT_EQ(early.take(4).size(), 1);
  EXPECT_EQ(early.bytes(), 0);
}

TEST(EarlyMessagesTest, KnowsWhatHasFailed) {
  EarlyMessages early;
  early.keep(3, 1, WindowRows{3, 1, 10, 100});
  EXPECT_FALSE(early.failure(3));
  early.keep(3, 1, PassFailed{3, ErrorKind::kIo, "no such file"});
  EXPECT_EQ(early.failure(3)->message, "no such file");
  EXPECT_FALSE(early.failure(4));
}

TEST(EarlyMessagesTest, KeepsALimitedNumberOfBytes) {
  EarlyMessages early(100'000);
  int kept = 0;
  Error error = error_of([&] {
    for (;; ++kept) early.keep(0, 1, WindowRows{0, 2 * kept + 1, 10, 100});
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_GT(kept, 100);
  EXPECT_LE(kept, 100'000 / static_cast<int>(sizeof(WindowRows)));
  EXPECT_LE(early.bytes(), 100'000);
  // Texts count, too; messages that were taken no longer count.
  early.take(0);
  EXPECT_EQ(early.bytes(), 0);
  early.keep(1, 1, PassFailed{1, ErrorKind::kIo, std::string(60'000, 'x')});
  EXPECT_EQ(error_of([&] {
              early.keep(2, 1, PassFailed{2, ErrorKind::kIo, std::string(60'000, 'x')});
            }).kind(),
            ErrorKind::kCorrupt);
  early.end(1);
  EXPECT_EQ(early.bytes(), 0);
  OpenPass open;
  open.dataset = std::string(90'000, 'x');
  early.keep(2, 1, JoinPass{open});
  EXPECT_GT(early.bytes(), 90'000);
}

TEST(EarlyMessagesTest, RemembersWhichPassesAreOver) {
  EarlyMessages early;
  std::set<uint64_t> over;
  for (uint64_t pass : {1, 0, 4, 3, 7, 2, 9, 5, 8}) {
    early.end(pass);
    over.insert(pass);
    for (uint64_t other = 0; other < 12; ++other) {
      EXPECT_EQ(early.is_over(other), over.contains(other)) << other << " after " << pass;
    }
  }
  early.end(3);
  EXPECT_TRUE(early.is_over(5));
  EXPECT_FALSE(early.is_over(6));
}

}  // namespace
}  // namespace manta::data
