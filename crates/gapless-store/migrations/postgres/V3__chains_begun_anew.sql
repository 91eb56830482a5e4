-- The newest seq that the feed had when it last began anew: what was told up to there is of a feed that was given up.
ALTER TABLE chain ADD COLUMN anew_after bigint;
-- Whether what the feed that was given up has left is still being deleted. Nothing of that is to be seen.
ALTER TABLE chain ADD COLUMN clearing boolean NOT NULL DEFAULT false;
