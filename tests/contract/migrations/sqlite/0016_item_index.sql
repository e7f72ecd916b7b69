
-- an item is found by the task that it was submitted with, of which its id has the id
DROP INDEX redrive_pipeline_items_item;
