#include "model_key_generator.hpp"

#include <chrono>

#include "model_generator.hpp"

namespace oncebox::conformance {

namespace {

using namespace std::chrono_literals;
using rc::gen::build;
using rc::gen::set;

rc::Gen<std::size_t> keys() { return one_of<std::size_t>({0, 0, 0, 1, 1, 2, 3}); }

rc::Gen<Duration> leases() { return one_of<Duration>({1s, 2s, 5s}); }

/// Some are shorter than a lease.
rc::Gen<Duration> retentions() { return one_of<Duration>({20s, 20s, 5s, 2s, 1s, 1ms}); }

rc::Gen<LeaseRef> lease_refs() {
  using Place = std::optional<std::size_t>;
  const Place same_key;
  return build<LeaseRef>(
      set(&LeaseRef::back, one_of<std::size_t>({0, 0, 0, 1, 1, 2, 3, 4})),
      set(&LeaseRef::other_key, one_of<Place>({same_key, same_key, same_key, same_key, same_key,
                                               same_key, same_key, 0, 1})));
}

rc::Gen<KeyOperation> begins() {
  using enum FailedKeyPolicy;
  return rc::gen::cast<KeyOperation>(build<BeginKeys>(
      set(&BeginKeys::requests,
          one_to_three(build<BeginDraft>(
              set(&BeginDraft::key, keys()), set(&BeginDraft::owner, below(vocabulary::kOwners)),
              set(&BeginDraft::lease, leases()), set(&BeginDraft::retention, retentions()),
              set(&BeginDraft::on_failed, one_of<FailedKeyPolicy>({retry, retry, suppress})))))));
}

rc::Gen<KeyOperation> completes() {
  using Place = std::optional<std::size_t>;
  const Place none;
  return rc::gen::cast<KeyOperation>(build<CompleteKeys>(
      set(&CompleteKeys::requests,
          one_to_three(build<CompleteDraft>(
              set(&CompleteDraft::lease, lease_refs()),
              set(&CompleteDraft::unconditional, one_of<Place>({none, none, none, 0, 1, 2})),
              set(&CompleteDraft::result, one_of<Place>({none, none, 0, 1, 2, 3})),
              set(&CompleteDraft::retention, retentions()))))));
}

rc::Gen<KeyOperation> fails() {
  return rc::gen::cast<KeyOperation>(build<FailKeys>(
      set(&FailKeys::requests,
          one_to_three(build<FailDraft>(set(&FailDraft::lease, lease_refs()),
                                        set(&FailDraft::error, below(vocabulary::kErrors)))))));
}

rc::Gen<KeyOperation> extends() {
  return rc::gen::cast<KeyOperation>(build<ExtendKeys>(
      set(&ExtendKeys::extensions,
          one_to_three(build<KeyExtensionDraft>(set(&KeyExtensionDraft::lease, lease_refs()),
                                                set(&KeyExtensionDraft::duration, leases()))))));
}

rc::Gen<KeyOperation> operations() {
  return rc::gen::weightedOneOf<KeyOperation>({
      {24, begins()},
      {8, completes()},
      {8, fails()},
      {8, rc::gen::cast<KeyOperation>(
              build<ReleaseKeys>(set(&ReleaseKeys::leases, one_to_three(lease_refs()))))},
      {8, extends()},
      {4, rc::gen::cast<KeyOperation>(build<FindKeys>(set(&FindKeys::keys, one_to_three(keys()))))},
      {2, rc::gen::cast<KeyOperation>(build<IsProcessed>(set(&IsProcessed::key, keys())))},
      {1, rc::gen::cast<KeyOperation>(build<MarkProcessed>(set(&MarkProcessed::key, keys())))},
      {4, rc::gen::cast<KeyOperation>(
              build<CleanupKeys>(set(&CleanupKeys::limit, one_of<std::size_t>({1000, 1, 2}))))},
      {18, rc::gen::cast<KeyOperation>(build<AdvanceKeyTime>(
               set(&AdvanceKeyTime::by, one_of<Duration>({1s, 1ms, 999ms, 2s, 4s, 5s, 20s}))))},
      {2, rc::gen::just<KeyOperation>(ReopenKeys{})},
  });
}

}  // namespace

rc::Gen<KeySequence> key_sequences() {
  return build<KeySequence>(
      set(&KeySequence::steps, sequences_of(build<KeyStep>(set(&KeyStep::operation, operations()),
                                                           set(&KeyStep::handle, below(2))))));
}

}  // namespace oncebox::conformance
