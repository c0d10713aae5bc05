#include "oncebox/driver/claim_offer.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace oncebox {
namespace {

Message message(const std::string& id, const std::string& topic = "order.created") {
  return {.key = {"shop", id}, .topic = topic, .payload = "12345"};
}

ClaimRequest request() { return {.owner = OwnerToken::generate(), .limit = 2, .max_bytes = 10}; }

ClaimedMessage claimed(const std::string& id, const OwnerToken& owner) {
  return {.message = message(id), .history = {}, .owner = owner};
}

class NotingOffer final : public ClaimOffer {
 public:
  using ClaimOffer::ClaimOffer;

  std::atomic<bool> stands = true;
  std::atomic<int> answers = 0;
  std::vector<ClaimedMessage> handed_over;

 private:
  bool on_take() noexcept override { return stands; }
  void on_answer(std::vector<ClaimedMessage> messages) noexcept override {
    ++answers;
    handed_over = std::move(messages);
  }
};

TEST(ClaimOffer, WhatIsWithdrawnCannotBeTaken) {
  NotingOffer offer(request());
  EXPECT_TRUE(offer.withdraw());
  EXPECT_FALSE(offer.take());
  EXPECT_EQ(offer.answers, 0);
}

TEST(ClaimOffer, IsTakenByOneAtATimeAndAnsweredOnce) {
  NotingOffer offer(request());
  ASSERT_TRUE(offer.take());
  EXPECT_FALSE(offer.take());
  EXPECT_FALSE(offer.withdraw());
  offer.answer({claimed("a", offer.request().owner)});
  EXPECT_EQ(offer.answers, 1);
  EXPECT_EQ(offer.handed_over.size(), 1U);
  EXPECT_FALSE(offer.take());
  EXPECT_FALSE(offer.withdraw());
}

TEST(ClaimOffer, WhatIsGivenBackCanBeTakenOrWithdrawnAgain) {
  NotingOffer offer(request());
  ASSERT_TRUE(offer.take());
  offer.give_back();
  ASSERT_TRUE(offer.take());
  offer.give_back();
  EXPECT_TRUE(offer.withdraw());
  EXPECT_EQ(offer.answers, 0);
}

TEST(ClaimOffer, WhatIsGivenBackAfterItWasRecalledIsAnsweredWithNothing) {
  NotingOffer offer(request());
  ASSERT_TRUE(offer.take());
  ASSERT_FALSE(offer.withdraw());
  offer.give_back();
  EXPECT_EQ(offer.answers, 1);
  EXPECT_TRUE(offer.handed_over.empty());
  EXPECT_FALSE(offer.take());
}

TEST(ClaimOffer, IsNotTakenWhenItNoLongerStands) {
  NotingOffer offer(request());
  offer.stands = false;
  EXPECT_FALSE(offer.take());
  EXPECT_TRUE(offer.withdraw());
}

TEST(ClaimOffer, IsEitherWithdrawnOrAnsweredHoweverTheyMeet) {
  for (int round = 0; round < 2'000; ++round) {
    NotingOffer offer(request());
    bool withdrawn = false;
    {
      const std::jthread taker([&] {
        if (!offer.take()) return;
        if (round % 2 == 0) return offer.give_back();
        offer.answer({claimed("a", offer.request().owner)});
      });
      withdrawn = offer.withdraw();
    }
    EXPECT_EQ(offer.answers, withdrawn ? 0 : 1);
  }
}

TEST(ClaimOffer, AcceptsWhatAClaimWouldHandOutAtOnce) {
  RecordProperty("requirement", "IBX-032,IBX-039");
  ClaimRequest orders = request();
  orders.topics = {.only = {"order.*"}, .except = {"order.paid"}};
  const NotingOffer offer(orders);
  const auto accepts = [&](const std::vector<Message>& messages) {
    return offer.accepts(messages);
  };
  EXPECT_TRUE(accepts({message("a")}));
  EXPECT_TRUE(accepts({message("a"), message("b")}));
  EXPECT_FALSE(accepts({message("a"), message("b"), message("c")})) << "more than the limit";
  EXPECT_FALSE(accepts({message("a", "order.paid")}));
  EXPECT_FALSE(accepts({message("a"), message("b", "mail.sent")}));
  Message large = message("a");
  large.payload = std::string(100, 'x');
  EXPECT_TRUE(accepts({large})) << "the first one is handed out whatever its size";
  EXPECT_FALSE(accepts({large, message("b")}));
  Message with_headers = message("a");
  with_headers.headers = {{"name", "v"}};
  EXPECT_FALSE(accepts({with_headers, message("b")})) << "headers count";
}

TEST(ClaimOffer, DoesNotAcceptWhatHasAPartitionOrATime) {
  RecordProperty("requirement", "IBX-032,R-17");
  const NotingOffer offer(request());
  Message partitioned = message("a");
  partitioned.partition_key = "customer-7";
  Message later = message("a");
  later.due_at = kMaxTime;
  Message mortal = message("a");
  mortal.expires_at = kMaxTime;
  for (const Message& special : {partitioned, later, mortal}) {
    EXPECT_FALSE(offer.accepts(std::vector{special}));
  }
}

TEST(ClaimOffers, AreForgottenWhenTheirMakerDropsThem) {
  ClaimOffers offers;
  const std::vector messages{message("a")};
  auto first = std::make_shared<NotingOffer>(request());
  const auto second = std::make_shared<NotingOffer>(request());
  offers.add(first);
  offers.add(second);
  first.reset();
  const TakenOffer taken = offers.take_for(messages);
  ASSERT_TRUE(taken);
  EXPECT_EQ(&taken.request(), &second->request());
  EXPECT_FALSE(offers.take_for(messages));
}

TEST(ClaimOffers, OneThatIsTakenAndNotAnsweredIsGivenBack) {
  ClaimOffers offers;
  const std::vector messages{message("a")};
  const auto offer = std::make_shared<NotingOffer>(request());
  offers.add(offer);
  EXPECT_TRUE(offers.take_for(messages));
  EXPECT_TRUE(offers.take_for(messages));
  EXPECT_TRUE(offer->withdraw());
}

}  // namespace
}  // namespace oncebox
