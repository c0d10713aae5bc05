#include "model_key_generator.hpp"

#include <chrono>

#include "model_generator.hpp"

namespace oncebox::conformance {

namespace {

using namespace std::chrono_literals;

Values<std::size_t> keys() { return one_of<std::size_t>({0, 0, 0, 1, 1, 2, 3}); }

Values<Duration> leases() { return one_of<Duration>({1s, 2s, 5s}); }

/// Some are shorter than a lease.
Values<Duration> retentions() { return one_of<Duration>({20s, 20s, 5s, 2s, 1s, 1ms}); }

Values<LeaseRef> lease_refs() {
  using Place = std::optional<std::size_t>;
  const Place same_key;
  return build<LeaseRef>(
      {set(&LeaseRef::back, one_of<std::size_t>({0, 0, 0, 1, 1, 2, 3, 4})),
       set(&LeaseRef::other_key, one_of<Place>({same_key, same_key, same_key, same_key, same_key,
                                                same_key, same_key, 0, 1}))});
}

Values<KeyOperation> begins() {
  using enum FailedKeyPolicy;
  return build<BeginKeys, KeyOperation>({set(
      &BeginKeys::requests,
      one_to_three(build<BeginDraft>(
          {set(&BeginDraft::key, keys()), set(&BeginDraft::owner, below(vocabulary::kOwners)),
           set(&BeginDraft::lease, leases()), set(&BeginDraft::retention, retentions()),
           set(&BeginDraft::on_failed, one_of<FailedKeyPolicy>({retry, retry, suppress}))})))});
}

Values<KeyOperation> completes() {
  using Place = std::optional<std::size_t>;
  const Place none;
  return build<CompleteKeys, KeyOperation>(
      {set(&CompleteKeys::requests,
           one_to_three(build<CompleteDraft>(
               {set(&CompleteDraft::lease, lease_refs()),
                set(&CompleteDraft::unconditional, one_of<Place>({none, none, none, 0, 1, 2})),
                set(&CompleteDraft::result, one_of<Place>({none, none, 0, 1, 2, 3})),
                set(&CompleteDraft::retention, retentions())})))});
}

Values<KeyOperation> fails() {
  return build<FailKeys, KeyOperation>(
      {set(&FailKeys::requests,
           one_to_three(build<FailDraft>({set(&FailDraft::lease, lease_refs()),
                                          set(&FailDraft::error, below(vocabulary::kErrors))})))});
}

Values<KeyOperation> extends() {
  return build<ExtendKeys, KeyOperation>(
      {set(&ExtendKeys::extensions,
           one_to_three(build<KeyExtensionDraft>({set(&KeyExtensionDraft::lease, lease_refs()),
                                                  set(&KeyExtensionDraft::duration, leases())})))});
}

Values<KeyOperation> operations() {
  return weighted<KeyOperation>({
      {24, begins()},
      {8, completes()},
      {8, fails()},
      {8,
       build<ReleaseKeys, KeyOperation>({set(&ReleaseKeys::leases, one_to_three(lease_refs()))})},
      {8, extends()},
      {4, build<FindKeys, KeyOperation>({set(&FindKeys::keys, one_to_three(keys()))})},
      {2, build<IsProcessed, KeyOperation>({set(&IsProcessed::key, keys())})},
      {1, build<MarkProcessed, KeyOperation>({set(&MarkProcessed::key, keys())})},
      {4, build<CleanupKeys, KeyOperation>(
              {set(&CleanupKeys::limit, one_of<std::size_t>({1000, 1, 2}))})},
      {18, build<AdvanceKeyTime, KeyOperation>(
               {set(&AdvanceKeyTime::by, one_of<Duration>({1s, 1ms, 999ms, 2s, 4s, 5s, 20s}))})},
      {2, just<KeyOperation>(ReopenKeys{})},
  });
}

}  // namespace

rc::Gen<KeySequence> key_sequences() {
  return typed(build<KeySequence>(
      {set(&KeySequence::steps, sequences_of(build<KeyStep>({set(&KeyStep::operation, operations()),
                                                             set(&KeyStep::handle, below(2))})))}));
}

}  // namespace oncebox::conformance
